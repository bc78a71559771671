import { foldPrincipal } from '../../shared/base/principal.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { parseDevKeys } from '../platform/access/dev-keys.ts';
import { isReservedPrincipal } from '../platform/access/reserved-principals.ts';
import type { Transaction } from '../platform/store/transaction.ts';

interface Grant {
  readonly agentId: string;
  readonly userId: string;
  readonly environment: string;
}

/**
 * Throws unless the caller may let a sidecar act for this user in this environment. An owner may
 * name any user, others nobody who holds an owner's key. A key that is bound to an agent may only
 * repeat the enrolment of a live sidecar of that agent.
 */
export async function assertMayGrant(
  services: Pick<Services, 'clock' | 'config' | 'guard'>,
  tx: Pick<Transaction, 'apiKey' | 'sidecar'>,
  caller: Caller,
  grant: Grant,
): Promise<void> {
  const { userId } = grant;
  if (userId === anyUser || isReservedPrincipal(userId)) {
    throw new GatewayError('args.schema_invalid', {
      message: `user_id: "${userId}" is not a user; name the person that the agent acts for.`,
    });
  }
  if (caller.agentId !== undefined) await assertRepeats(services, tx, caller.tenantId, grant);
  if (caller.role === 'owner') return;
  if (!(await isOwner(services, tx, caller.tenantId, userId))) return;
  throw new GatewayError('sidecar.grant_exceeds_own', {
    message: `user_id: "${userId}" holds an owner's key; only an owner makes a sidecar act for an owner.`,
  });
}

async function assertRepeats(
  { guard }: Pick<Services, 'guard'>,
  tx: Pick<Transaction, 'sidecar'>,
  tenantId: string,
  grant: Grant,
): Promise<void> {
  const sidecars = await tx.sidecar.findMany({ where: { tenantId, ...grant, revokedAt: null } });
  if (sidecars.some((sidecar) => guard.holds('sidecar', sidecar))) return;
  throw new GatewayError('sidecar.grant_exceeds_own', {
    message: `No live sidecar of agent ${grant.agentId} acts for ${grant.userId} in ${grant.environment}; enrol the first one with a key that is not bound to an agent.`,
  });
}

async function isOwner(
  { clock, config, guard }: Pick<Services, 'clock' | 'config' | 'guard'>,
  tx: Pick<Transaction, 'apiKey'>,
  tenantId: string,
  userId: string,
): Promise<boolean> {
  const folded = foldPrincipal(userId);
  const isTheirs = ({ principal }: { readonly principal: string }) =>
    foldPrincipal(principal) === folded;
  const isDevOwner = parseDevKeys(config).some(
    (key) => key.tenantId === tenantId && key.role === 'owner' && isTheirs(key),
  );
  if (isDevOwner) return true;
  const unexpired = [{ expiresAt: null }, { expiresAt: { gt: new Date(clock.now()) } }];
  const keys = await tx.apiKey.findMany({
    where: { tenantId, role: 'owner', revokedAt: null, OR: unexpired },
  });
  for (const key of keys) guard.assert('api_key', key);
  return keys.some(isTheirs);
}
