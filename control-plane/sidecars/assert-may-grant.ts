import { foldPrincipal } from '../../shared/base/principal.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { parseDevKeys } from '../platform/access/dev-keys.ts';
import { isReservedPrincipal } from '../platform/access/reserved-principals.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { SignedClient } from '../platform/signed-store/tables.ts';

interface Grant {
  readonly agentId: string;
  readonly userId: string;
  readonly environment: string;
}

/**
 * Throws unless the caller may let a sidecar act for this user in this environment. An owner may
 * name any user; other callers may not name a user that holds an owner's key. A key that is bound
 * to an agent may only repeat the enrolment of a live sidecar of that agent.
 */
export async function assertMayGrant(
  services: Pick<Services, 'clock' | 'config' | 'guard'>,
  db: SignedClient,
  caller: Pick<Caller, 'tenantId' | 'role' | 'agentId'>,
  grant: Grant,
): Promise<void> {
  const { userId } = grant;
  if (userId === anyUser || isReservedPrincipal(userId)) {
    throw new GatewayError('args.schema_invalid', {
      message: `user_id: "${userId}" is not a user; name the person that the agent acts for.`,
    });
  }
  if (caller.agentId !== undefined) await assertRepeats(services, db, caller.tenantId, grant);
  if (caller.role === 'owner') return;
  if (!(await isOwner(services, db, caller.tenantId, userId))) return;
  throw new GatewayError('sidecar.grant_exceeds_own', {
    message: `user_id: "${userId}" holds an owner's key; only an owner makes a sidecar act for an owner.`,
  });
}

async function assertRepeats(
  { guard }: Pick<Services, 'guard'>,
  db: SignedClient,
  tenantId: string,
  grant: Grant,
): Promise<void> {
  const live = { where: { tenantId, ...grant, revokedAt: null } };
  if ((await signedRows({ db, guard }, 'sidecar').findValid(live)).length > 0) return;
  throw new GatewayError('sidecar.grant_exceeds_own', {
    message: `No live sidecar of agent ${grant.agentId} acts for ${grant.userId} in ${grant.environment}; enrol the first one with a key that is not bound to an agent.`,
  });
}

async function isOwner(
  { clock, config, guard }: Pick<Services, 'clock' | 'config' | 'guard'>,
  db: SignedClient,
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
  const keys = await signedRows({ db, guard }, 'api_key').findMany({
    where: { tenantId, role: 'owner', revokedAt: null, OR: unexpired },
  });
  return keys.some(isTheirs);
}
