import type { z } from 'zod';
import type {
  appendEvidenceEvent,
  SealedEventRecord,
} from '../../shared/contract/evidence/evidence.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { toRecord } from '../ledger/reading/list-events.ts';
import { agentChain, newEvent } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';

type NewCustomEvent = z.output<NonNullable<typeof appendEvidenceEvent.body>>;

/**
 * Seals an event that the caller supplies. A key that is bound to an agent writes to that agent's
 * chain only.
 */
export async function appendEvent(
  { ledger, vault, clock }: Pick<Services, 'ledger' | 'vault' | 'clock'>,
  caller: Caller,
  { type, chain_id, agent_id, tool, data }: NewCustomEvent,
): Promise<SealedEventRecord> {
  const agentId = agent_id ?? caller.agentId;
  const chainId = chain_id ?? (agentId === undefined ? 'custom:events' : agentChain(agentId));
  refuseOtherAgent(caller, agentId, chainId);
  const event = newEvent({ type, chainId, agentId, userId: caller.principal, tool, data }, clock);
  return toRecord(vault, await ledger.seal(caller.tenantId, event));
}

function refuseOtherAgent(caller: Caller, agentId: string | undefined, chainId: string): void {
  assertOwnAgent(caller, agentId);
  if (caller.agentId === undefined || !chainId.startsWith('agent:')) return;
  if (chainId !== agentChain(caller.agentId)) throw new GatewayError('agent.mismatch');
}
