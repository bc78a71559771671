import { idTimeMs } from '../../shared/base/ids.ts';
import { foldPrincipal } from '../../shared/base/principal.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';

interface PresentedPassport {
  readonly tenantId: string;
  readonly agentId: string;
  readonly jti: string;
  readonly userId: string;
}

/**
 * Returns when the user was last present, according to a passport that the agent presents. Returns
 * undefined if the passport was not issued for exactly this user: leases and grants prove no user.
 * `atMs` is undefined if no principal with this permission attested the presence
 * (docs/decisions/0222). For a renewal, returns the time of the first passport in its chain,
 * because agents renew without the user.
 */
export async function userPresence(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId, agentId, jti, userId }: PresentedPassport,
): Promise<{ readonly atMs: number | undefined } | undefined> {
  const [passport] = await signedRows(services, 'passport').findValid({
    where: { tenantId, jti: revocationId(jti), kind: 'agent', agentId, userId },
  });
  if (passport === undefined) return undefined;
  const isAttested = passport.attestedBy !== null;
  return { atMs: isAttested ? idTimeMs(passport.rootJti ?? passport.jti) : undefined };
}

/**
 * Returns the principal that attests the user's presence: the user, with their own key, or a
 * principal with the permission to attest. Returns undefined for any other caller, because an agent
 * could otherwise re-authenticate its user in the user's absence.
 */
export function attestationOf(
  { principal, role, agentId, permissions }: Caller,
  userId: string,
): string | undefined {
  if (role === 'agent' || agentId !== undefined) return undefined;
  const isTheUser = foldPrincipal(principal) === foldPrincipal(userId);
  return isTheUser || permissions.has('reauth.attest') ? principal : undefined;
}
