import { refuseDuplicateNames } from '../../shared/binding/args.ts';
import type { ActionRequest } from '../../shared/contract/actions.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Caller } from '../platform/access/caller.ts';
import { assertOwnAgent } from '../platform/access/own-agent.ts';
import { pauser } from '../platform/scheduling/pauser.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';

/**
 * Builds the action of a request in the caller's tenant. A key that is bound to an agent can act
 * only for that agent.
 */
export async function actionOf(caller: Caller, request: ActionRequest): Promise<Action> {
  assertOwnAgent(caller, request.agent_id);
  const args = request.args ?? {};
  const pause = pauser();
  // Throws for arguments that JSON cannot represent exactly, because they have no digest.
  measureWork(() => canonicalJson(args));
  await pause();
  measureWork(() => refuseDuplicateNames(args));
  await pause();
  return {
    tenantId: caller.tenantId,
    agentId: request.agent_id,
    agentName: request.agent_name,
    userId: request.user_id,
    tool: request.tool,
    resource: request.resource,
    args,
    goal: request.goal,
    mode: request.mode,
    audience: request.audience,
  };
}
