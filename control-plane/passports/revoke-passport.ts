import { revocationId } from '../../shared/passport/single-use.ts';
import { agentChain, commitChange } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';

interface Revocation {
  readonly jti: string;
  readonly reason: string | undefined;
  readonly revokedAt: Date;
}

/**
 * Revokes a jti for good, whether or not it was issued here. The number of a lease is revoked
 * alone, the lease's own id with all its numbers. Revoking again changes nothing.
 */
export async function revokePassport(
  services: Services,
  { tenantId, principal }: Caller,
  { jti, reason }: { readonly jti: string; readonly reason?: string | undefined },
): Promise<Revocation> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const passport = await tx.passport.findUnique({
      where: { tenantId_jti: { tenantId, jti: revocationId(jti) } },
    });
    const { count } = await tx.passportRevocation.createMany({
      data: {
        tenantId,
        jti,
        reason: reason ?? null,
        revokedBy: principal,
        revokedAt: new Date(services.clock.now()),
        expiresAt: passport?.expiresAt ?? null,
      },
      skipDuplicates: true,
    });
    const row = await tx.passportRevocation.findUniqueOrThrow({
      where: { tenantId_jti: { tenantId, jti } },
    });
    if (count === 1) {
      notes.sections('revocations');
      await notes.event({
        type: 'passport.revoked',
        chainId: passport === null ? 'passports:revoked' : agentChain(passport.agentId),
        agentId: passport?.agentId,
        userId: passport?.userId,
        data: { jti, known: passport !== null, reason, revoked_by: principal },
      });
    }
    return row;
  });
  return { jti, reason: result.reason ?? undefined, revokedAt: result.revokedAt };
}
