import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from './caller.ts';

/** Throws if the caller's key is bound to another agent, whatever the key's role is. */
export function assertOwnAgent({ agentId: own }: Caller, agentId: string | undefined): void {
  if (own !== undefined && own !== agentId) throw new GatewayError('agent.mismatch');
}
