import { compactDecrypt } from 'jose';
import { z } from 'zod';
import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import type { HeldCredential } from '../../shared/binding/binding.ts';
import { createClient } from '../../shared/contract/base/client.ts';
import {
  claimSidecarPassport,
  getKeySuccession,
  getSidecarUsage,
  openSidecarApproval,
  spendSidecarApproval,
  uploadEvidence,
} from '../../shared/contract/sidecar-calls.ts';
import {
  sidecarTokenAudience,
  sidecarTokenSecondsMax,
  sidecarTokenType,
} from '../../shared/contract/sidecar-token.ts';
import { getSidecarCredentials, reportSidecar } from '../../shared/contract/sidecars.ts';
import { signJws } from '../../shared/crypto/jws.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import type { Bucket } from '../../shared/usage/buckets.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Effect, Verdict } from '../../shared/vocabulary/verdict.ts';
import type { Enrolment } from './enrolment-file.ts';

/** Time limit of requests that an agent may be waiting for. */
const answerMs = 10_000;

interface SidecarReport {
  readonly versions: Record<string, number>;
  readonly age_ms: number;
  readonly spool_depth: number;
  readonly spool_written: number;
  readonly last_decision_at?: string;
  readonly last_decision?: { readonly decision: string; readonly reason_code: string };
  readonly version: string;
}

/** The control plane's response to an upload. */
export interface Acknowledged {
  /** All records up to this position are sealed. */
  readonly acked: SpoolPosition;
  /** The current head of the ledger; an older control plane omits it. */
  readonly ledger?: LedgerAcknowledgement | undefined;
}

/** The agent's usage outside this sidecar run, as the control plane reports it. */
export interface UsageElsewhere {
  readonly position: number;
  readonly after: number;
  readonly buckets: readonly (Bucket & { readonly tool: string })[];
}

/**
 * The requests that a sidecar sends to the control plane. A sidecar can act only for its own agent.
 */
export interface ControlPlane {
  openApproval(
    action: Action,
    actionDigest: string,
    verdict: Verdict,
    /** The passport that the agent presented with the action, compact JWS. */
    presented?: string,
  ): Promise<{ readonly id: number; readonly expiresAtMs: number }>;
  /**
   * Consumes a granted approval. Rejects if the approval was used, has expired or belongs to
   * another agent.
   */
  spendApproval(approvalId: number): Promise<void>;
  /**
   * Claims a passport in the database, in addition to the claim on the bus. False if the passport
   * was already claimed there.
   */
  claimPassport(jti: string, expiresAtMs: number): Promise<boolean>;
  credentials(): Promise<{
    readonly credentials: readonly HeldCredential[];
    readonly version: number;
  }>;
  /**
   * Uploads records: lines of the spool, each with its line feed. `ledger` is the last
   * acknowledgement, with which the ledger must still agree.
   */
  upload(
    segment: string,
    lines: readonly Buffer[],
    ledger?: LedgerAcknowledgement,
  ): Promise<Acknowledged>;
  /** Reports the sidecar's state; resolves with the id of the key that currently signs sections. */
  report(report: SidecarReport): Promise<string>;
  /**
   * Returns the agent's usage outside `run`: the counts that changed after ledger position `after`.
   */
  usage(run: string, after: number): Promise<UsageElsewhere>;
  /** Statements about the succession of section keys, each signed by the previous key. */
  keySuccession(): Promise<readonly string[]>;
}

interface ControlPlaneOptions {
  readonly url: string;
  readonly enrolment: Enrolment;
  readonly clock: Clock;
}

export function connectControlPlane({ url, enrolment, clock }: ControlPlaneOptions): ControlPlane {
  const { encryptionKey, identity } = enrolment;
  const authorization = () => `Bearer ${sidecarToken(enrolment, clock)}`;
  const baseUrl = `${url}/api`;
  const client = createClient({ baseUrl, authorization, timeoutMs: answerMs });
  const patient = createClient({ baseUrl, authorization });

  return {
    async openApproval(action, actionDigest, verdict, presented) {
      const opened = await client.call(openSidecarApproval, {
        body: {
          tool: action.tool,
          resource: action.resource,
          args: action.args,
          mcp: action.mcp,
          goal: action.goal,
          ...(action.userId === identity.userId ? {} : { user_id: action.userId }),
          ...(presented === undefined
            ? {}
            : { passport: presented, passport_jti: verdict.passportJti }),
          reason_code: verdict.reasonCode,
          matched_rules: [...verdict.matchedRules],
          policy_hash: verdict.policyHash,
          manifest_hash: verdict.toolManifestHash,
          risk_tier: verdict.riskTier,
          terms: termsOf(verdict),
          action_digest: actionDigest,
        },
      });
      return { id: opened.approval_id, expiresAtMs: Date.parse(opened.expires_at) };
    },
    async spendApproval(approvalId) {
      await client.call(spendSidecarApproval, { params: { id: approvalId } });
    },
    async claimPassport(jti) {
      const { claimed } = await client.call(claimSidecarPassport, { body: { jti } });
      return claimed;
    },
    async credentials() {
      const { jwe, version } = await client.call(getSidecarCredentials, {});
      const { plaintext } = await compactDecrypt(jwe, encryptionKey);
      const credentials = readCredentials(plaintext);
      plaintext.fill(0);
      return { credentials, version };
    },
    async upload(segment, lines, ledger) {
      const head = Buffer.from(`${JSON.stringify({ segment, ledger })}\n`);
      return patient.call(uploadEvidence, { body: Buffer.concat([head, ...lines]) });
    },
    async keySuccession() {
      return (await client.call(getKeySuccession, {})).statements;
    },
    async usage(run, after) {
      return client.call(getSidecarUsage, { query: { run, after } });
    },
    async report(report) {
      return (await client.call(reportSidecar, { body: report })).section_key_id;
    },
  };
}

const heldForm = z.object({
  credentials: z.array(
    z.object({
      id: z.string(),
      version: z.number(),
      secret: z.string(),
      inject: z.object({
        in: z.enum(['bearer', 'header', 'basic', 'query']),
        name: z.string().optional(),
        format: z.string().optional(),
      }),
      bind: z.object({ tools: z.array(z.string()), hosts: z.array(z.string()) }),
    }),
  ),
});

/**
 * Parses decrypted credentials. Errors omit their cause, because a parser's message quotes the
 * text, which contains secrets.
 */
function readCredentials(plaintext: Uint8Array): HeldCredential[] {
  try {
    return heldForm.parse(JSON.parse(Buffer.from(plaintext).toString('utf8'))).credentials;
  } catch {
    throw new Error('The credentials that the control plane sent cannot be read.');
  }
}

/** Creates a short-lived JWT that authenticates the sidecar; each request has its own. */
function sidecarToken({ identity, signingKey }: Enrolment, clock: Clock): string {
  const now = Math.floor(clock.now() / 1000);
  const claims = {
    iss: identity.sidecarId,
    sub: identity.sidecarId,
    aud: sidecarTokenAudience,
    iat: now,
    exp: now + sidecarTokenSecondsMax,
    jti: newId('st', clock.now()),
  };
  return signJws(claims, sidecarTokenType, signingKey);
}

function termsOf({ effects }: Verdict) {
  const opens = effects.find(
    (effect): effect is Extract<Effect, { kind: 'open_approval' }> =>
      effect.kind === 'open_approval',
  );
  const terms = opens?.terms ?? {
    channels: [],
    minRole: 'approver',
    quorum: 1,
    slaSeconds: undefined,
  };
  return { ...terms, channels: [...terms.channels] };
}
