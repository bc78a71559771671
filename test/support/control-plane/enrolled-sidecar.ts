import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ControlPlane, connectControlPlane } from '../../../proxy/control-plane/client.ts';
import { enrol } from '../../../proxy/control-plane/enrolment.ts';
import type { Enrolment } from '../../../proxy/control-plane/enrolment-file.ts';
import type { SpoolRecord } from '../../../proxy/spool/spool.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { createEnrolmentToken } from '../../../shared/contract/sidecars.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { signJws } from '../../../shared/crypto/jws.ts';
import type { SigningKey } from '../../../shared/crypto/signing-key.ts';
import {
  type SpoolHead,
  type SpoolPosition,
  spoolHeadType,
  spoolLinkHash,
} from '../../../shared/ledger/spool-head.ts';
import { linesFrom } from '../sidecar/spool-lines.ts';
import type { Gateway } from './gateway.ts';

export const spoolStart: SpoolPosition = { record: 0, hash: '0'.repeat(64) };

export interface EnrolledSidecar {
  readonly id: string;
  readonly agentId: string;
  readonly enrolment: Enrolment;
  /** The sidecar's own client for the control plane. */
  readonly controlPlane: ControlPlane;
  /** Returns a record as the sidecar's spool would store it. */
  record(more?: JsonObject, salt?: string): SpoolRecord;
  upload(segment: string, records: readonly SpoolRecord[]): Promise<SpoolPosition>;
  /** Signs a segment of the spool: these records, which follow the position `after`. */
  segment(records: readonly SpoolRecord[], after?: SpoolPosition, more?: SegmentChanges): Segment;
}

interface SegmentChanges {
  readonly sidecar?: string;
  readonly key?: SigningKey;
}

interface Segment {
  readonly jws: string;
  readonly last: SpoolPosition;
}

/** Enrols the identity of a real sidecar for an agent of the default tenant. */
export async function enrolledSidecar(
  gateway: Gateway,
  agentId: string,
  userId = 'user-1',
): Promise<EnrolledSidecar> {
  const body = { agent_id: agentId, user_id: userId, environment: 'staging' } as const;
  const { token } = await gateway.owner.call(createEnrolmentToken, { body });
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-sidecar-'));
  const url = gateway.api.origin;
  const enrolment = await enrol({ dataDir, controlPlaneUrl: url, token, version: 'test' });
  await rm(dataDir, { recursive: true });
  const { clock } = gateway.services;
  const id = enrolment.identity.sidecarId;
  const controlPlane = connectControlPlane({ url, enrolment, clock });
  return {
    id,
    agentId,
    enrolment,
    controlPlane,
    upload: async (jws, records) => {
      const lines = linesFrom(records.map((one) => canonicalJson(one)));
      return (await controlPlane.upload(jws, lines)).acked;
    },
    record: (more = {}, salt) => ({
      event: {
        id: newId('ev', clock.now()),
        type: 'decision',
        chain_id: `agent:${agentId}`,
        occurred_at: new Date(clock.now()).toISOString(),
        source: `sidecar:${id}`,
        agent_id: agentId,
        user_id: userId,
        tool: 'pay',
        resource: 'invoice:1',
        decision: 'allow',
        reason_code: 'test.allow',
        data: { args_shape: {} },
        ...more,
      },
      ...(salt === undefined ? {} : { salt }),
    }),
    segment(records, after = spoolStart, { sidecar = id, key = enrolment.signingKey } = {}) {
      const hash = records.reduce((h, one) => spoolLinkHash(h, canonicalJson(one)), after.hash);
      const last = { record: after.record + records.length, hash };
      const head: SpoolHead = { sidecar, after, last };
      return { jws: signJws(head, spoolHeadType, key), last };
    },
  };
}
