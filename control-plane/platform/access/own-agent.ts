import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from './caller.ts';

/** Throws if the key is bound to another agent, whatever its role. */
export function assertOwnAgent({ agentId: own }: Caller, agentId: string | undefined): void {
  if (own !== undefined && own !== agentId) throw new GatewayError('agent.mismatch');
}
