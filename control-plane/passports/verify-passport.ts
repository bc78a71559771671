import { type PassportFailure, passportFailures } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { revocationId } from '../../shared/passport/single-use.ts';
import { agentRowId } from '../agents/agent-row-id.ts';
import { approvalProof } from '../approvals/approval-proof.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { lookUpUse } from './look-up-use.ts';
import { readPresented } from './read-passport.ts';

interface PassportReport {
  readonly valid: boolean;
  readonly errors: readonly PassportFailure[];
  /** What it says, when its signature holds. */
  readonly claims?: PassportClaims;
}

/** Holds a passport against every check that needs no action, without using it up. */
export async function verifyPassport(
  services: Services,
  { tenantId }: Caller,
  { passport, audience }: { readonly passport: string; readonly audience?: string | undefined },
): Promise<PassportReport> {
  const reading = await readPresented(services, tenantId, passport);
  const nowMs = services.clock.now();
  const target = { tenantId, nowMs, audience };
  if (reading.form !== 'signed') {
    return { valid: false, errors: passportFailures(reading, target) };
  }
  const { claims } = reading;
  const [revoked, use, approvalFailure] = await Promise.all([
    isRevoked(services, tenantId, claims),
    lookUpUse(services, tenantId, claims.jti),
    checkApproval(services, tenantId, claims),
  ]);
  const failures = passportFailures(
    {
      form: 'signed',
      claims,
      source: 'presented',
      revoked,
      use,
    },
    target,
  );
  const errors = approvalFailure === undefined ? failures : [...failures, approvalFailure];
  // What another tenant's passport says is not for this tenant to read.
  return claims.tenant_id === tenantId
    ? { valid: errors.length === 0, errors, claims }
    : { valid: false, errors };
}

async function isRevoked(
  { db }: Services,
  tenantId: string,
  claims: PassportClaims,
): Promise<boolean> {
  const id = agentRowId(claims.sub);
  const [revocations, disabled] = await Promise.all([
    db.passportRevocation.count({
      where: { tenantId, jti: { in: [claims.jti, revocationId(claims.jti)] } },
    }),
    id === undefined ? 0 : db.agent.count({ where: { tenantId, id, disabledAt: { not: null } } }),
  ]);
  return revocations > 0 || disabled > 0;
}

/** A passport that rests on an approval is worth no more than the approval. */
async function checkApproval(
  services: Services,
  tenantId: string,
  { approval_hash }: PassportClaims,
): Promise<PassportFailure | undefined> {
  if (approval_hash === null) return undefined;
  const { db, clock } = services;
  const approval = await db.approval.findFirst({ where: { tenantId, eventHash: approval_hash } });
  const row =
    approval?.eventId == null
      ? null
      : await db.evidenceRow.findFirst({
          where: { tenantId, eventId: approval.eventId, eventHash: approval_hash },
        });
  const proof =
    approval === null || row === null
      ? undefined
      : approvalProof(approval_hash, {
          id: approval.id,
          used: approval.usedAt !== null,
          canonical: row.canonical,
        });
  const check = 'approval';
  if (proof?.granted !== true) {
    return {
      check,
      reason_code: 'approval.invalid',
      message: 'No granted approval has this hash.',
    };
  }
  if (proof.used) {
    return { check, reason_code: 'approval.used', message: 'The approval was used before.' };
  }
  if (proof.expiresAtMs <= clock.now()) {
    return { check, reason_code: 'approval.expired', message: 'The grant has expired.' };
  }
  return undefined;
}
