import * as passports from '../../shared/contract/agent-passports.ts';
import * as contract from '../../shared/contract/agents.ts';
import type { Services } from '../core/services.ts';
import { serviceAccountPrincipal } from '../platform/access/reserved-principals.ts';
import { type Route, route } from '../platform/http/route.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';
import { issueAgentPassport } from './issue-agent-passport.ts';
import { agentRecord, listAgents, readAgent } from './read-agents.ts';
import { registerAgent } from './register-agent.ts';
import { renewPassport } from './renew-passport.ts';
import { mintServiceAccount } from './service-account.ts';
import { setAgentStatus } from './set-agent-status.ts';
import { validateAgent } from './validate-agent.ts';

export function agentRoutes(services: Services): Route[] {
  return [...registryRoutes(services), ...agentPassportRoutes(services)];
}

function registryRoutes(services: Services): Route[] {
  return [
    route(contract.registerAgent, async ({ body }, caller) => {
      const agent = agentRecord(await registerAgent(services, caller, body));
      const given = [{ field: 'capabilities', tools: body.capabilities }];
      return { body: { ...agent, ...(await warnUnknownTools(services, caller.tenantId, given)) } };
    }),
    route(contract.listAgents, async ({ query }, caller) => {
      const { agents, nextCursor } = await listAgents(services, caller, query);
      return { body: { agents: agents.map(agentRecord), next_cursor: nextCursor } };
    }),
    route(contract.getAgent, async ({ params }, caller) => {
      const { agent, serviceAccounts } = await readAgent(services, caller, params.id);
      const service_accounts = serviceAccounts.map(({ account, active }) => ({
        id: account.id,
        name: account.name,
        principal: serviceAccountPrincipal(account.id),
        created_at: account.createdAt.toISOString(),
        active,
      }));
      return { body: { ...agentRecord(agent), service_accounts } };
    }),
    route(contract.updateAgent, async ({ params, body }, caller) => ({
      body: agentRecord(await setAgentStatus(services, caller, { ...params, ...body })),
    })),
    route(contract.createServiceAccount, async ({ body }, caller) => {
      const { agent_id, name, expires_at } = body;
      const wanted = { agentId: agent_id, name, expiresAt: expires_at };
      const { account, key, keyId, expiresAt } = await mintServiceAccount(services, caller, wanted);
      return {
        body: {
          id: account.id,
          agent_id,
          name,
          principal: serviceAccountPrincipal(account.id),
          key,
          key_id: keyId,
          role: 'agent' as const,
          created_at: account.createdAt.toISOString(),
          expires_at: expiresAt?.toISOString() ?? null,
        },
      };
    }),
  ];
}

function agentPassportRoutes(services: Services): Route[] {
  return [
    route(passports.issueAgentPassport, async ({ body }, caller) => {
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
    route(passports.validateAgent, async ({ body }, caller) => {
      const { agent_id: agentId, passport, audience } = body;
      const question = { agentId, passport, audience };
      return { body: validationBody(await validateAgent(services, caller, question)) };
    }),
    route(passports.renewAgentPassport, async ({ body }, caller) => ({
      body: renewalBody(await renewPassport(services, caller, renewalOf(body, false))),
    })),
    route(passports.refreshAgentPassport, async ({ body }, caller) => ({
      body: renewalBody(await renewPassport(services, caller, renewalOf(body, true))),
    })),
  ];
}

function validationBody({
  agent,
  errors,
  claims,
  effectiveTools,
}: Awaited<ReturnType<typeof validateAgent>>) {
  const { agent_id, status, capabilities } = agentRecord(agent);
  return {
    valid: errors.length === 0,
    agent_id,
    status,
    capabilities,
    errors: [...errors],
    claims,
    ...(effectiveTools === undefined ? {} : { effective_tools: [...effectiveTools] }),
  };
}

function renewalOf(
  { agent_id: agentId, passport, ttl_seconds: ttlSeconds }: passports.RenewalRequest,
  refresh: boolean,
) {
  return { agentId, passport, ttlSeconds, refresh };
}

function renewalBody(renewed: Awaited<ReturnType<typeof renewPassport>>) {
  const { token, claims, expiresAt, evidenceId, replaces } = renewed;
  return { token, claims, expires_at: expiresAt, evidence_id: evidenceId, replaces };
}
