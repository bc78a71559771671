import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import type { Services } from '../core/services.ts';
import { claimDurably } from '../passports/claim-store.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { assertAgent } from './enrolment-token.ts';

/**
 * Claims the single use of a passport durably. Throws for another agent's passport, because the
 * claim would consume that passport.
 */
export async function claimSidecarPassport(
  services: Pick<Services, 'db' | 'clock' | 'guard'>,
  { tenantId, agentId }: Caller,
  jti: string,
): Promise<boolean> {
  if (agentId === undefined) throw new GatewayError('passport.agent_mismatch');
  const [passport] = await signedRows(services, 'passport').findMany({
    where: { tenantId, jti: revocationId(jti), agentId },
  });
  if (passport === undefined) throw new GatewayError('passport.agent_mismatch');
  await assertAgent(services, services.db, tenantId, agentId);
  return claimDurably(services, tenantId, { jti, expiresAtMs: passport.expiresAt.getTime() });
}
