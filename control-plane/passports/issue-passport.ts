import type { RiskTier } from '../../shared/decision/action.ts';
import { GatewayError } from '../../shared/errors.ts';
import { clampTools } from '../../shared/glob.ts';
import type { JsonObject } from '../../shared/json.ts';
import { anyUser } from '../../shared/passport/claims.ts';
import { agentRowId } from '../agents/agent-row-id.ts';
import { assertOwnAgent } from '../agents/own-agent.ts';
import type { Caller } from '../http/route.ts';
import { loadPublishedPolicies } from '../policies/load-published.ts';
import type { Services } from '../services.ts';
import { type MintedPassport, mintPassport } from './mint-passport.ts';

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
 * Issues a passport with what the caller asks for. A registered agent gets no tool outside its
 * capabilities; an id that is not registered gets a passport that only a decision which knows
 * the agent could honour.
 */
export async function issuePassport(
  services: Services,
  caller: Caller,
  request: PassportRequest,
): Promise<MintedPassport> {
  if (request.tenantId !== caller.tenantId) throw new GatewayError('tenant.mismatch');
  assertMayIssue(caller, request.agentId, request.userId);
  const [allowedTools, policies] = await Promise.all([
    toolsFor(services, request),
    loadPublishedPolicies(services, request.tenantId),
  ]);
  return mintPassport(services, {
    ...request,
    allowedTools,
    policyHash: policies.hash,
    issuedBy: caller.principal,
  });
}

/**
 * A key bound to an agent gets that agent's passports only. An agent's own key names no user but
 * itself: whom the agent acts for is for others to say.
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
  { db }: Services,
  { tenantId, agentId, allowedTools }: PassportRequest,
): Promise<readonly string[]> {
  const id = agentRowId(agentId);
  const agent =
    id === undefined
      ? null
      : await db.agent.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (agent === null) return [...new Set(allowedTools)];
  if (agent.disabledAt !== null) throw new GatewayError('agent.not_found');
  const tools = clampTools(allowedTools, agent.capabilities);
  if (tools.length === 0) throw new GatewayError('passport.tool_not_allowed');
  return tools;
}
