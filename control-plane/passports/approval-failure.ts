import type { PassportFailure } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { proofOf } from '../approvals/approval-proof.ts';
import type { Services } from '../core/services.ts';

/** A passport that rests on an approval is worth no more than the approval. */
export async function approvalFailure(
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
