import type { RiskTier } from '../../shared/decision/action.ts';
import { GatewayError } from '../../shared/errors.ts';
import { clampTools } from '../../shared/glob.ts';
import type { JsonObject } from '../../shared/json.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import type { PolicySet } from '../../shared/policy/policy-set.ts';
import type { Caller } from '../http/route.ts';
import { assertMayIssue } from '../passports/issue-passport.ts';
import { type MintedPassport, mintPassport } from '../passports/mint-passport.ts';
import { loadPublishedPolicies } from '../policies/load-published.ts';
import type { Services } from '../services.ts';
import type { Agent } from '../store/generated/client.ts';

/** In `policy_id`: not one policy, but all that are published; `policy_hash` says which. */
const publishedSet = 'published';

interface AgentPassportRequest {
  readonly agentId: number;
  readonly requestedTools: readonly string[];
  readonly requestedResources?: readonly string[] | undefined;
  readonly resourceConstraints?: JsonObject | undefined;
  readonly ttlSeconds: number;
  readonly purpose?: string | undefined;
  readonly audience: string;
  readonly riskTier?: RiskTier | undefined;
  readonly userId?: string | undefined;
}

/** Issues a passport to a registered agent, clamped to what it is capable of. */
export async function issueAgentPassport(
  services: Services,
  caller: Caller,
  request: AgentPassportRequest,
): Promise<MintedPassport> {
  const { tenantId, principal } = caller;
  const userId = request.userId ?? anyUser;
  assertMayIssue(caller, String(request.agentId), userId);
  const agent = await loadAgent(services, tenantId, request.agentId);
  const allowedTools = clampTools(request.requestedTools, agent.capabilities);
  if (allowedTools.length === 0) throw new GatewayError('passport.tool_not_allowed');
  const policies = await loadPolicies(services, tenantId);
  return mintPassport(services, {
    tenantId,
    agentId: String(agent.id),
    userId,
    goal: request.purpose ?? agent.goal ?? '',
    allowedTools,
    allowedResources: request.requestedResources,
    resourceConstraints: request.resourceConstraints,
    riskTier: request.riskTier ?? (agent.blastRadius as RiskTier),
    policyId: publishedSet,
    policyHash: policies.hash,
    audience: request.audience,
    ttlSeconds: request.ttlSeconds,
    issuedBy: principal,
  });
}

async function loadAgent({ db }: Services, tenantId: string, id: number): Promise<Agent> {
  const agent = await db.agent
    .findUnique({ where: { tenantId_id: { tenantId, id } } })
    .catch((cause: unknown) => {
      throw new GatewayError('agent.load_failed', { cause });
    });
  if (agent === null || agent.disabledAt !== null) throw new GatewayError('agent.not_found');
  return agent;
}

async function loadPolicies(services: Services, tenantId: string): Promise<PolicySet> {
  try {
    return await loadPublishedPolicies(services, tenantId);
  } catch (cause) {
    throw new GatewayError('policy.load_failed', { cause });
  }
}
