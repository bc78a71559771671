import { clampTools } from '../../shared/glob/glob.ts';
import type { PassportFailure } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import type { Services } from '../core/services.ts';
import { examinePassport } from '../passports/examine-passport.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { loadAgent } from '../records/load-agent.ts';

interface AgentReport {
  readonly agent: Verified<Agent>;
  readonly errors: readonly PassportFailure[];
  readonly claims?: PassportClaims;
  /** Tools of the passport that the agent's capabilities still cover. */
  readonly effectiveTools?: readonly string[];
}

interface Question {
  readonly agentId: number;
  readonly passport?: string | undefined;
  readonly audience?: string | undefined;
}

/**
 * Reports every reason why an agent cannot act. If a passport is given, also reports the passport's
 * problems.
 */
export async function validateAgent(
  services: Services,
  caller: Caller,
  { agentId: id, passport, audience }: Question,
): Promise<AgentReport> {
  const { tenantId } = caller;
  const agentId = String(id);
  assertOwnAgent(caller, agentId);
  const agent = await loadAgent(services, tenantId, id);
  const disabled = agent.disabledAt === null ? [] : [isDisabled];
  if (passport === undefined) return { agent, errors: disabled };
  const found = await examinePassport(services, tenantId, { passport, audience, agentId });
  const errors = [...disabled, ...found.errors];
  if (found.claims === undefined) return { agent, errors };
  const effectiveTools = clampTools(found.claims.allowed_tools, agent.capabilities);
  return {
    agent,
    errors: effectiveTools.length > 0 ? errors : [...errors, coversNothing],
    claims: found.claims,
    effectiveTools,
  };
}

const isDisabled: PassportFailure = {
  check: 'agent',
  reason_code: 'agent.disabled',
  message: 'The agent is disabled.',
};

const coversNothing: PassportFailure = {
  check: 'tool',
  reason_code: 'passport.tool_not_allowed',
  message: 'The agent’s capabilities no longer cover any tool of the passport.',
};
