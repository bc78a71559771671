import { type PassportFailure, passportFailures } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { revocationId } from '../../shared/passport/single-use.ts';
import { proofOf } from '../approvals/approval-proof.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { lookUpUse } from './claim-store.ts';
import { readPresented } from './read-passport.ts';

interface Examined {
  readonly errors: readonly PassportFailure[];
  /** What it says, when its signature holds and it is this tenant's. */
  readonly claims?: PassportClaims;
}

export interface Examination {
  readonly passport: string;
  readonly audience?: string | undefined;
  /** The one agent that it may belong to. */
  readonly agentId?: string | undefined;
  /** How long ago it may have expired. Default: not at all. */
  readonly graceMs?: number;
}

/** Holds a passport against every check that needs no action, without using it up. */
export async function examinePassport(
  services: Services,
  tenantId: string,
  { passport, audience, agentId, graceMs = 0 }: Examination,
): Promise<Examined> {
  const reading = await readPresented(services, tenantId, passport);
  const nowMs = services.clock.now();
  if (reading.form !== 'signed') {
    return { errors: passportFailures(reading, { tenantId, nowMs }) };
  }
  const { claims } = reading;
  const [revoked, use, failedApproval] = await Promise.all([
    isRevoked(services, tenantId, claims),
    lookUpUse(services, tenantId, claims.jti),
    approvalFailure(services, tenantId, claims),
  ]);
  const failures = passportFailures(
    { form: 'signed', claims, source: 'presented', revoked, use },
    { tenantId, nowMs: withinGrace(nowMs, claims, graceMs), audience },
  );
  const isOwn = agentId === undefined || claims.sub === agentId;
  const errors = [
    ...failures,
    ...(failedApproval === undefined ? [] : [failedApproval]),
    ...(isOwn ? [] : [anothersPassport]),
  ];
  // What the passport of another tenant, or of another agent, says is not for this caller to read.
  return claims.tenant_id === tenantId && isOwn ? { errors, claims } : { errors };
}

const anothersPassport: PassportFailure = {
  check: 'agent',
  reason_code: 'passport.agent_mismatch',
  message: 'The passport was issued to a different agent.',
};

/** The last moment in which the passport was valid, as long as that is not too long ago. */
function withinGrace(nowMs: number, { exp }: PassportClaims, graceMs: number): number {
  const expiresMs = exp * 1000;
  return nowMs >= expiresMs && nowMs < expiresMs + graceMs ? expiresMs - 1 : nowMs;
}

async function isRevoked(
  { db, guard }: Services,
  tenantId: string,
  claims: PassportClaims,
): Promise<boolean> {
  const id = agentRowId(claims.sub);
  const [revocations, agent] = await Promise.all([
    db.passportRevocation.count({
      where: { tenantId, jti: { in: [claims.jti, revocationId(claims.jti)] } },
    }),
    id === undefined ? null : db.agent.findUnique({ where: { tenantId_id: { tenantId, id } } }),
  ]);
  const isStopped = agent !== null && (agent.disabledAt !== null || !guard.holds('agent', agent));
  return revocations > 0 || isStopped;
}

/** A passport that rests on an approval is worth no more than the approval. */
async function approvalFailure(
  services: Services,
  tenantId: string,
  { approval_hash }: PassportClaims,
): Promise<PassportFailure | undefined> {
  if (approval_hash === null) return undefined;
  const { db, clock } = services;
  const approval = await db.approval.findFirst({ where: { tenantId, eventHash: approval_hash } });
  const proof = approval === null ? undefined : await proofOf(services, db, approval);
  const check = 'approval';
  if (proof?.granted !== true) {
    return {
      check,
      reason_code: 'approval.invalid',
      message: 'No granted approval has this hash.',
    };
  }
  if (proof.revoked === true) {
    return { check, reason_code: 'approval.grant_revoked', message: 'The grant was revoked.' };
  }
  if (proof.used) {
    return { check, reason_code: 'approval.used', message: 'The approval was already used.' };
  }
  if (proof.expiresAtMs <= clock.now()) {
    return { check, reason_code: 'approval.expired', message: 'The grant has expired.' };
  }
  return undefined;
}

interface PassportReport {
  readonly valid: boolean;
  readonly errors: readonly PassportFailure[];
  /** What it says, when its signature holds. */
  readonly claims?: PassportClaims;
}

/** Says all that is wrong with a passport. A key bound to an agent reads that agent's only. */
export async function verifyPassport(
  services: Services,
  { tenantId, agentId }: Caller,
  { passport, audience }: { readonly passport: string; readonly audience?: string | undefined },
): Promise<PassportReport> {
  const found = await examinePassport(services, tenantId, { passport, audience, agentId });
  return { valid: found.errors.length === 0, ...found };
}
