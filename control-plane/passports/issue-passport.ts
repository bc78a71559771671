import type { JsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { clampTools } from '../../shared/glob/glob.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import type { RiskTier } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { assertEnabled, findAgent, lockEnabledAgent } from '../records/load-agent.ts';
import { type MintedPassport, mintPassport, stampedPolicyHash } from './mint-passport.ts';
import { attestationOf } from './user-presence.ts';

interface PassportRequest {
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly goal: string;
  readonly allowedTools: readonly string[];
  readonly allowedResources?: readonly string[] | undefined;
  readonly resourceConstraints?: JsonObject | undefined;
  readonly riskTier: RiskTier;
  readonly policyId: string;
  readonly approvalHash?: string | null | undefined;
  readonly audience: string;
  readonly ttlSeconds: number;
}

/**
 * Issues a passport with the requested terms. A registered agent gets no tool outside its
 * capabilities. For an unregistered agent id, the passport can be used only after the agent is
 * registered.
 */
export async function issuePassport(
  services: Services,
  caller: Caller,
  request: PassportRequest,
): Promise<MintedPassport> {
  if (request.tenantId !== caller.tenantId) throw new GatewayError('tenant.mismatch');
  assertMayIssue(caller, request.agentId, request.userId);
  const { tenantId, agentId } = request;
  const [allowedTools, policyHash] = await Promise.all([
    toolsFor(services, request),
    stampedPolicyHash(services, tenantId),
  ]);
  return mintPassport(
    services,
    {
      ...request,
      allowedTools,
      policyHash,
      issuedBy: caller.principal,
      attestedBy: attestationOf(caller, request.userId),
    },
    ({ tx }) => lockEnabledAgent(tx, tenantId, agentId),
  );
}

/**
 * Throws if the caller may not issue this passport. A key that is bound to an agent gets passports
 * for that agent only. A key with the role `agent` can name only its own principal as the user,
 * because an agent must not choose whom it acts for.
 */
export function assertMayIssue(caller: Caller, agentId: string, userId: string): void {
  assertOwnAgent(caller, agentId);
  if (caller.role === 'agent' && userId !== anyUser && userId !== caller.principal) {
    throw new GatewayError('passport.user_mismatch', {
      message: 'A key of role agent cannot issue a passport for another user than its principal.',
    });
  }
}

async function toolsFor(
  services: Services,
  { tenantId, agentId, allowedTools }: PassportRequest,
): Promise<readonly string[]> {
  const agent = await findAgent(services, tenantId, agentId);
  if (agent === undefined) return [...new Set(allowedTools)];
  assertEnabled(agent);
  const tools = clampTools(allowedTools, agent.capabilities);
  if (tools.length === 0) throw new GatewayError('passport.tool_not_allowed');
  return tools;
}
