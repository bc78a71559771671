import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { agentRowId } from './agent-row-id.ts';

/** The registered agent, or undefined; throws `agent.load_failed` if it cannot be read. */
export async function findAgent(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  agentId: string,
): Promise<Agent | undefined> {
  const id = agentRowId(agentId);
  if (id === undefined) return undefined;
  let agent: Agent | null;
  try {
    agent = await db.agent.findUnique({ where: { tenantId_id: { tenantId, id } } });
  } catch (cause) {
    throw new GatewayError('agent.load_failed', { cause });
  }
  if (agent === null) return undefined;
  guard.assert('agent', agent);
  return agent;
}

export async function loadAgent(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
  agentId: number,
): Promise<Agent> {
  const agent = await findAgent(services, tenantId, String(agentId));
  if (agent === undefined) throw new GatewayError('agent.not_found');
  return agent;
}

export function assertEnabled({ disabledAt }: Pick<Agent, 'disabledAt'>): void {
  if (disabledAt !== null) throw new GatewayError('agent.disabled');
}

/**
 * Throws if the agent is disabled, and locks it until the transaction ends, so that a later
 * disabling sees and revokes what is issued here. Ignores an unregistered id.
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
