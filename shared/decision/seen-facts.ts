import type { JsonObject } from '../base/json.ts';
import type { Action } from '../vocabulary/action.ts';
import type { SeenFacts } from '../vocabulary/verdict.ts';
import { directoryUserOf } from './context.ts';
import type { DecisionState } from './state.ts';

/** What evidence keeps of the state that an action was judged by. */
export function seenFacts(action: Action, state: DecisionState): SeenFacts {
  const { agent, passport } = state;
  return {
    agentName: agent?.name,
    isGoalRegistered: agent?.goal !== undefined,
    userRole: directoryUserOf(action, state)?.role,
    isApprovalBound: passport?.form === 'signed' && passport.claims.approval_hash !== null,
  };
}

/** The same in a decision's event, its members in canonical order. */
export function seenRecord(seen: SeenFacts | undefined): JsonObject | undefined {
  if (seen === undefined) return undefined;
  return {
    agent_name: seen.agentName,
    approval_bound: seen.isApprovalBound || undefined,
    goal_registered: seen.isGoalRegistered || undefined,
    user_role: seen.userRole,
  };
}
