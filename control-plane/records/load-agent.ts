import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from './agent-row-id.ts';

/**
 * Returns the registered agent, or undefined if there is none. Throws `agent.load_failed` if it
 * cannot be read.
 */
export async function findAgent(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  agentId: string,
): Promise<Verified<Agent> | undefined> {
  const id = agentRowId(agentId);
  if (id === undefined) return undefined;
  const agents = signedRows(services, 'agent');
  try {
    return (await agents.findUnique({ where: { tenantId_id: { tenantId, id } } })) ?? undefined;
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw new GatewayError('agent.load_failed', { cause });
  }
}

export async function loadAgent(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  agentId: number,
): Promise<Verified<Agent>> {
  const agent = await findAgent(services, tenantId, String(agentId));
  if (agent === undefined) throw new GatewayError('agent.not_found');
  return agent;
}

export function assertEnabled({ disabledAt }: Verified<Agent>): void {
  if (disabledAt !== null) throw new GatewayError('agent.disabled');
}

/**
 * Throws if the agent is disabled. Locks the agent until the transaction ends: if the agent is
 * disabled later, everything that this transaction issues is then also revoked. Ignores an
 * unregistered id.
 */
export async function lockEnabledAgent(
  tx: Transaction,
  tenantId: string,
  agentId: string,
): Promise<void> {
  const id = agentRowId(agentId);
  if (id === undefined) return;
  const rows = await tx.$queryRaw<{ disabled: boolean }[]>`
    select disabled_at is not null as disabled from agent
    where tenant_id = ${tenantId} and id = ${id} for share`;
  if (rows[0]?.disabled === true) throw new GatewayError('agent.disabled');
}
