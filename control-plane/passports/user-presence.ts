import { idTimeMs } from '../../shared/base/ids.ts';
import { foldPrincipal } from '../../shared/base/principal.ts';
import { revocationId } from '../../shared/passport/single-use.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';

interface PresentedPassport {
  readonly tenantId: string;
  readonly agentId: string;
  readonly jti: string;
  readonly userId: string;
}

/**
 * When the user was last there, by a passport that the agent presents: undefined when it was not
 * issued for exactly this user, and without a time when nobody who may attests it
 * (docs/decisions/0222).
 * Leases and grants are the sidecar's own and prove no user; a renewal says only when the first of
 * its chain was issued, for an agent renews alone.
 */
export async function userPresence(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  { tenantId, agentId, jti, userId }: PresentedPassport,
): Promise<{ readonly atMs: number | undefined } | undefined> {
  const passport = await db.passport.findUnique({
    where: { tenantId_jti: { tenantId, jti: revocationId(jti) } },
  });
  const isTheirs =
    passport?.kind === 'agent' && passport.agentId === agentId && passport.userId === userId;
  if (isTheirs && !guard.holds('passport', passport)) return undefined;
  if (!isTheirs) return undefined;
  const isAttested = passport.attestedBy !== null;
  return { atMs: isAttested ? idTimeMs(passport.rootJti ?? passport.jti) : undefined };
}

/**
 * Whose word it is that a passport's user is there as it is issued: the user's own, by a key of
 * theirs, or that of somebody who may attest it. Undefined for all others, an agent's key first of
 * all: otherwise an agent could authenticate its user again by itself.
 */
export function attestationOf(
  { principal, role, agentId, permissions }: Caller,
  userId: string,
): string | undefined {
  if (role === 'agent' || agentId !== undefined) return undefined;
  const isTheUser = foldPrincipal(principal) === foldPrincipal(userId);
  return isTheUser || permissions.has('reauth.attest') ? principal : undefined;
}
