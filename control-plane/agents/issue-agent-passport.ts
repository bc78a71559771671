import type { JsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { clampTools } from '../../shared/glob/glob.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import { type RiskTier, riskTiers } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import { assertMayIssue } from '../passports/issue-passport.ts';
import {
  type MintedPassport,
  mintPassport,
  stampedPolicyHash,
} from '../passports/mint-passport.ts';
import { attestationOf } from '../passports/user-presence.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertEnabled, loadAgent, lockEnabledAgent } from '../records/load-agent.ts';

/**
 * Value of `policy_id`: the passport refers to all published policies; `policy_hash` identifies
 * them.
 */
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

/** Issues a passport to a registered agent, limited to its capabilities. */
export async function issueAgentPassport(
  services: Services,
  caller: Caller,
  request: AgentPassportRequest,
): Promise<MintedPassport> {
  const { tenantId, principal } = caller;
  const userId = request.userId ?? anyUser;
  const agentId = String(request.agentId);
  assertMayIssue(caller, agentId, userId);
  const agent = await loadAgent(services, tenantId, request.agentId);
  assertEnabled(agent);
  const allowedTools = clampTools(request.requestedTools, agent.capabilities);
  if (allowedTools.length === 0) throw new GatewayError('passport.tool_not_allowed');
  const blastRadius = riskTiers.find((known) => known === agent.blastRadius) ?? 'critical';
  return mintPassport(
    services,
    {
      tenantId,
      agentId,
      userId,
      goal: request.purpose ?? agent.goal ?? '',
      allowedTools,
      allowedResources: request.requestedResources,
      resourceConstraints: request.resourceConstraints,
      riskTier: request.riskTier ?? blastRadius,
      policyId: publishedSet,
      policyHash: await stampedPolicyHash(services, tenantId),
      audience: request.audience,
      ttlSeconds: request.ttlSeconds,
      issuedBy: principal,
      attestedBy: attestationOf(caller, userId),
    },
    ({ tx }) => lockEnabledAgent(tx, tenantId, agentId),
  );
}
