import { revocationId } from '../../shared/passport/single-use.ts';
import type { Services } from '../services.ts';
import type { Sidecar } from '../store/generated/client.ts';

/**
 * True when the passport with this jti was issued to the sidecar's agent for exactly this user.
 * Leases and grants are the sidecar's own and prove no user.
 */
export async function isUserOfPassport(
  { db }: Pick<Services, 'db'>,
  { tenantId, agentId }: Pick<Sidecar, 'tenantId' | 'agentId'>,
  { jti, userId }: { readonly jti: string; readonly userId: string },
): Promise<boolean> {
  const passport = await db.passport.findUnique({
    where: { tenantId_jti: { tenantId, jti: revocationId(jti) } },
  });
  return passport?.kind === 'agent' && passport.agentId === agentId && passport.userId === userId;
}
