import type { AgentAnswer } from '../../shared/contract/agents.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import type { Agent } from '../platform/store/generated/client.ts';

/** A registered agent as callers see it. */
export function agentRecord(agent: Agent): AgentAnswer {
  const { disabledAt, disabledBy, disabledReason } = agent;
  return {
    agent_id: agent.id,
    name: agent.name,
    kind: agent.kind,
    capabilities: agent.capabilities,
    goal: agent.goal ?? undefined,
    // What cannot be read is taken for the worst.
    blast_radius: riskTiers.find((known) => known === agent.blastRadius) ?? 'critical',
    status: disabledAt === null ? 'active' : 'disabled',
    disabled_at: disabledAt?.toISOString(),
    disabled_by: disabledBy ?? undefined,
    disabled_reason: disabledReason ?? undefined,
    created_at: agent.createdAt.toISOString(),
    updated_at: agent.updatedAt.toISOString(),
  };
}
