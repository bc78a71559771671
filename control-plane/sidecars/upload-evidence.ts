import { GatewayError } from '../../shared/errors.ts';
import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import type { Sidecar } from '../store/generated/client.ts';
import { noteObservedDrift } from '../tools/note-observed-drift.ts';
import { ownSidecar } from './fleet.ts';
import { reportIncident } from './report-incident.ts';
import { strangerAmong } from './uploaded-event.ts';
import { readUpload, type UploadedRecord } from './uploaded-segment.ts';

interface Upload {
  /** Compact JWS over where the records stand in the spool. */
  readonly segment: string;
  readonly records: readonly UploadedRecord[];
}

/**
 * Seals what a sidecar saw, in its order. A record that speaks for anybody else, or that is not
 * the one the sidecar signed, is refused with its whole batch and reported: it is never put right
 * in silence. Uploading the same again changes nothing.
 */
export async function uploadEvidence(
  services: Services,
  caller: Caller,
  upload: Upload,
): Promise<{ readonly sealed: number; readonly acked: SpoolPosition }> {
  const sidecar = await ownSidecar(services, caller);
  const read = readUpload(sidecar, upload);
  if ('problem' in read) throw await refused(services, sidecar, upload, read.problem);
  const problem = await strangerAmong(services, sidecar, upload.records);
  if (problem !== undefined) throw await refused(services, sidecar, upload, problem);
  const { after, last } = read;
  await noteGap(services, sidecar, after);
  await storeSalts(services, sidecar.tenantId, upload.records);
  const events = upload.records.map(({ event }) => event);
  await seal(services, sidecar, events);
  // Before the upload is acknowledged: a report that could not be followed comes again.
  for (const event of events) await noteObservedDrift(services, sidecar, event);
  await acknowledge(services, sidecar, last);
  return { sealed: events.length, acked: last };
}

async function refused(
  services: Services,
  sidecar: Sidecar,
  { segment }: Upload,
  problem: string,
): Promise<GatewayError> {
  await reportIncident(services, sidecar, {
    type: 'sidecar.evidence_refused',
    key: segment,
    data: { problem },
  });
  return new GatewayError('evidence.event_invalid', { message: `Nothing was sealed: ${problem}.` });
}

/** Records that were never uploaded are missing for good: the ledger says so itself. */
async function noteGap(services: Services, sidecar: Sidecar, after: SpoolPosition): Promise<void> {
  const acked = Number(sidecar.ackedRecord);
  const isSameSpool = after.record !== acked || acked === 0 || after.hash === sidecar.ackedSegment;
  if (after.record <= acked && isSameSpool) return;
  await reportIncident(services, sidecar, {
    type: 'sidecar.evidence_gap',
    key: `${after.record} ${after.hash}`,
    data: { acked_record: acked, next_record: after.record + 1 },
  });
}

async function storeSalts(
  { pool, vault }: Services,
  tenantId: string,
  records: readonly UploadedRecord[],
): Promise<void> {
  const ids: string[] = [];
  const sealed: string[] = [];
  for (const { event, salt } of records) {
    if (salt === undefined) continue;
    const place = { tenantId, purpose: 'evidence_salt', id: event.id, version: 1 };
    ids.push(event.id);
    sealed.push(vault.seal(salt, place));
  }
  if (ids.length === 0) return;
  // Through the pool, as sealing: there is one for every second record of every sidecar.
  await pool.query(
    `insert into evidence_salt (tenant_id, event_id, sealed)
     select $1, salt.* from unnest($2::text[], $3::text[]) as salt
     on conflict do nothing`,
    [tenantId, ids, sealed],
  );
}

async function seal(
  services: Services,
  sidecar: Sidecar,
  events: readonly EvidenceEvent[],
): Promise<void> {
  try {
    await services.ledger.sealAll(sidecar.tenantId, events);
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) {
      throw new GatewayError('evidence.seal_failed', { cause: thrown });
    }
    if (thrown.code === 'evidence.id_conflict') {
      await reportIncident(services, sidecar, {
        type: 'sidecar.evidence_conflict',
        key: events[0]?.id ?? '',
        data: { first_event: events[0]?.id, last_event: events.at(-1)?.id },
      });
    }
    throw thrown;
  }
}

async function acknowledge(
  { db, clock }: Services,
  { tenantId, id }: Sidecar,
  last: SpoolPosition,
): Promise<void> {
  await db.sidecar.update({
    where: { tenantId_id: { tenantId, id } },
    data: {
      ackedRecord: BigInt(last.record),
      ackedSegment: last.hash,
      lastSeenAt: new Date(clock.now()),
    },
  });
}
