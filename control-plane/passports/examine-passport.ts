import { type PassportFailure, passportFailures } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import { proofOf } from '../approvals/approval-proof.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { lookUpUse } from './claim-store.ts';
import { readPresented } from './read-passport.ts';

interface Examined {
  readonly errors: readonly PassportFailure[];
  /** The claims, if the signature is valid and the passport belongs to this tenant. */
  readonly claims?: PassportClaims;
}

export interface Examination {
  readonly passport: string;
  readonly audience?: string | undefined;
  /** The only agent that the passport may belong to. */
  readonly agentId?: string | undefined;
  /** Accepts a passport that expired at most this long ago. Default: 0. */
  readonly graceMs?: number;
}

/** Verifies a passport without consuming it. Omits the checks that need an action. */
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
  // Omits the claims of another tenant's or another agent's passport, because the caller must not
  // read them.
  return claims.tenant_id === tenantId && isOwn ? { errors, claims } : { errors };
}

const anothersPassport: PassportFailure = {
  check: 'agent',
  reason_code: 'passport.agent_mismatch',
  message: 'The passport was issued to a different agent.',
};

/**
 * Returns the time for the expiry check: the passport's last valid moment if the passport expired
 * within the grace period, otherwise the current time.
 */
function withinGrace(nowMs: number, { exp }: PassportClaims, graceMs: number): number {
  const expiresMs = exp * 1000;
  return nowMs >= expiresMs && nowMs < expiresMs + graceMs ? expiresMs - 1 : nowMs;
}

async function isRevoked(
  services: Services,
  tenantId: string,
  claims: PassportClaims,
): Promise<boolean> {
  const agents = signedRows(services, 'agent');
  const id = agentRowId(claims.sub);
  const [revocations, agent] = await Promise.all([
    services.db.passportRevocation.count({
      where: { tenantId, jti: { in: [claims.jti, revocationId(claims.jti)] } },
    }),
    id === undefined
      ? null
      : agents.findUniqueUnverified({ where: { tenantId_id: { tenantId, id } } }),
  ]);
  const isStopped =
    agent !== null && (claimsOf(agent).disabledAt !== null || !agents.isValid(agent));
  return revocations > 0 || isStopped;
}

/**
 * Checks the approval of a passport that is bound to one: the passport is valid only while the
 * approval is valid.
 */
async function approvalFailure(
  services: Services,
  tenantId: string,
  { approval_hash }: PassportClaims,
): Promise<PassportFailure | undefined> {
  if (approval_hash === null) return undefined;
  const { db, clock } = services;
  const approvals = signedRows(services, 'approval');
  const [approval] = await approvals.findValid({
    where: { tenantId, eventHash: approval_hash },
    take: 1,
  });
  const proof = approval === undefined ? undefined : await proofOf(db, approval);
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
  /** The claims, if the signature is valid. */
  readonly claims?: PassportClaims;
}

/**
 * Reports everything that is wrong with a passport. A key that is bound to an agent reads that
 * agent's passports only.
 */
export async function verifyPassport(
  services: Services,
  { tenantId, agentId }: Caller,
  { passport, audience }: { readonly passport: string; readonly audience?: string | undefined },
): Promise<PassportReport> {
  const found = await examinePassport(services, tenantId, { passport, audience, agentId });
  return { valid: found.errors.length === 0, ...found };
}
