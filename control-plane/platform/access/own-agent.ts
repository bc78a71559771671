import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from './caller.ts';

/** A key that is bound to an agent acts for that agent only, whatever its role may otherwise do. */
export function assertOwnAgent({ agentId: own }: Caller, agentId: string | undefined): void {
  if (own !== undefined && own !== agentId) throw new GatewayError('agent.mismatch');
}
