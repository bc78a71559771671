import type { AgentAnswer } from '../../shared/contract/agents.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { loadAgent } from '../records/load-agent.ts';
import { type ListedServiceAccount, listServiceAccounts } from './service-account.ts';

type Deps = Pick<Services, 'db' | 'clock' | 'guard'>;

interface AgentQuery {
  readonly status?: 'active' | 'disabled' | undefined;
  readonly kind?: string | undefined;
  readonly limit: number;
  /** Only agents with a greater id. */
  readonly cursor?: number | undefined;
}

/**
 * Returns one page of the tenant's agents, oldest first. A key that is bound to an agent sees only
 * that agent.
 */
export async function listAgents(
  services: Deps,
  { tenantId, agentId }: Caller,
  { status, kind, limit, cursor = 0 }: AgentQuery,
): Promise<{ readonly agents: readonly Verified<Agent>[]; readonly nextCursor: string | null }> {
  const rows = signedRows(services, 'agent');
  const found = await rows.findUnverified({
    where: {
      tenantId,
      id: { gt: cursor, ...(agentId === undefined ? {} : { equals: Number(agentId) }) },
      ...(kind === undefined ? {} : { kind }),
      ...(status === undefined ? {} : { disabledAt: status === 'active' ? null : { not: null } }),
    },
    orderBy: { id: 'asc' },
    take: limit + 1,
  });
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  const nextCursor = last === undefined ? null : String(claimsOf(last).id);
  return { agents: rows.valid(page), nextCursor };
}

export async function readAgent(
  services: Deps,
  caller: Caller,
  id: number,
): Promise<{
  readonly agent: Verified<Agent>;
  readonly serviceAccounts: readonly ListedServiceAccount[];
}> {
  assertOwnAgent(caller, String(id));
  const agent = await loadAgent(services, caller.tenantId, id);
  return { agent, serviceAccounts: await listServiceAccounts(services, agent) };
}

/** A registered agent as the API shows it. */
export function agentRecord(agent: Verified<Agent>): AgentAnswer {
  const { disabledAt, disabledBy, disabledReason } = agent;
  return {
    agent_id: agent.id,
    name: agent.name,
    kind: agent.kind,
    capabilities: agent.capabilities,
    goal: agent.goal ?? undefined,
    // An unreadable value counts as the highest tier.
    blast_radius: riskTiers.find((known) => known === agent.blastRadius) ?? 'critical',
    status: disabledAt === null ? 'active' : 'disabled',
    disabled_at: disabledAt?.toISOString(),
    disabled_by: disabledBy ?? undefined,
    disabled_reason: disabledReason ?? undefined,
    created_at: agent.createdAt.toISOString(),
    updated_at: agent.updatedAt.toISOString(),
  };
}
