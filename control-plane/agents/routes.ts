import * as contract from '../../shared/contract/agents.ts';
import type { RiskTier } from '../../shared/decision/action.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { issueAgentPassport } from './issue-agent-passport.ts';
import { registerAgent } from './register-agent.ts';

export function agentRoutes(services: Services): Route[] {
  return [
    route(contract.registerAgent, async ({ body }, caller) => {
      const agent = await registerAgent(services, caller, body);
      return {
        body: {
          agent_id: agent.id,
          name: agent.name,
          kind: agent.kind,
          capabilities: agent.capabilities,
          goal: agent.goal ?? undefined,
          blast_radius: agent.blastRadius as RiskTier,
          created_at: agent.createdAt.toISOString(),
          updated_at: agent.updatedAt.toISOString(),
        },
      };
    }),
    route(contract.issueAgentPassport, async ({ body }, caller) => {
      const { token, claims, expiresAt, evidenceId } = await issueAgentPassport(services, caller, {
        agentId: body.agent_id,
        requestedTools: body.requested_tools,
        requestedResources: body.requested_resources,
        resourceConstraints: body.resource_constraints,
        ttlSeconds: body.ttl_seconds,
        purpose: body.purpose,
        audience: body.audience,
        riskTier: body.risk_tier,
        userId: body.user_id,
      });
      return { body: { token, claims, expires_at: expiresAt, evidence_id: evidenceId } };
    }),
  ];
}
