import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import { refreshGraceMs } from '../../shared/passport/single-use-claim.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import type { Passport } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

interface Revocation {
  readonly jti: string;
  readonly reason: string | undefined;
  readonly revokedAt: Date;
}

/**
 * Locks one chain of passports, identified by `rootJti`, so that its renewals and revocations are
 * serialised.
 */
export async function lockRenewals(
  tx: Transaction,
  tenantId: string,
  rootJti: string,
): Promise<void> {
  await lockFor(tx, tenantId, `renewals of ${rootJti}`);
}

/**
 * Revokes a jti and its renewals permanently, even if this installation did not issue the jti. A
 * lease has numbered jtis: revoking one of them revokes one use, and revoking the lease's own jti
 * revokes all uses. Revoking again changes nothing. A key that is bound to an agent revokes only
 * that agent's passports.
 */
export async function revokePassport(
  services: Services,
  { tenantId, principal, agentId }: Caller,
  { jti, reason }: { readonly jti: string; readonly reason?: string | undefined },
): Promise<Revocation> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const found = await notes.rows('passport').findUniqueUnverified({
      where: { tenantId_jti: { tenantId, jti: revocationId(jti) } },
    });
    // A revocation only removes authority, so the row does not have to be verified.
    const passport = found === null ? null : claimsOf(found);
    if (agentId !== undefined && passport?.agentId !== agentId) {
      throw new GatewayError('agent.mismatch');
    }
    const nowMs = services.clock.now();
    const renewals = passport === null ? [] : await renewalsOf(tx, notes, passport, nowMs);
    const revokedAt = new Date(nowMs);
    const common = { tenantId, reason: reason ?? null, revokedBy: principal, revokedAt };
    const { count } = await tx.passportRevocation.createMany({
      data: [
        { ...common, jti, expiresAt: passport?.expiresAt ?? null },
        ...renewals.map(({ jti, expiresAt }) => ({ ...common, jti, expiresAt })),
      ],
      skipDuplicates: true,
    });
    const row = await tx.passportRevocation.findUniqueOrThrow({
      where: { tenantId_jti: { tenantId, jti } },
    });
    if (count > 0) {
      notes.sections('revocations');
      await notes.event({
        type: 'passport.revoked',
        chainId: passport === null ? 'passports:revoked' : agentChain(passport.agentId),
        agentId: passport?.agentId,
        userId: passport?.userId,
        data: {
          jti,
          known: passport !== null,
          reason,
          renewals: renewals.length === 0 ? undefined : renewals.map((renewal) => renewal.jti),
          revoked_by: principal,
        },
      });
    }
    return row;
  });
  return { jti, reason: result.reason ?? undefined, revokedAt: result.revokedAt };
}

/** Returns the other passports of the chain that are valid or can still be renewed. */
async function renewalsOf(
  tx: Transaction,
  notes: ChangeNotes,
  { tenantId, jti, kind, rootJti }: Passport,
  nowMs: number,
): Promise<readonly Pick<Passport, 'jti' | 'expiresAt'>[]> {
  if (kind !== 'agent') return [];
  const root = rootJti ?? jti;
  await lockRenewals(tx, tenantId, root);
  const goneBefore = new Date(nowMs - refreshGraceMs);
  return notes.rows('passport').findClaims(['jti', 'expiresAt'], {
    where: { tenantId, rootJti: root, jti: { not: jti }, expiresAt: { gt: goneBefore } },
    orderBy: { jti: 'asc' },
  });
}
