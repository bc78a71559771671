import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Replica, Revocation } from './replica.ts';

/** Why every call of this agent is refused, as far as the replica knows; it need not be complete. */
export function knownRevocation(
  replica: Pick<Replica, 'revocationOf'>,
  agentId: string,
): Revocation | undefined {
  try {
    return replica.revocationOf(agentId);
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'sync.no_snapshot') return undefined;
    throw error;
  }
}
