import type { JsonObject, JsonValue } from '../base/json.ts';
import type { PolicyContext } from '../policy/language/context.ts';
import type { Action } from '../vocabulary/action.ts';
import { parseResource } from '../vocabulary/resource.ts';
import type { SeenFacts } from '../vocabulary/verdict.ts';
import type { DecisionState, DirectoryUser } from './state.ts';

/**
 * Builds the context of an action for policies. Names, e-mail and role come from the tenant's
 * records, never from the request. Unknown values are absent.
 */
export function buildContext(action: Action, state: DecisionState): PolicyContext {
  const context = {
    tenant: { id: state.tenant.id, name: state.tenant.name },
    agent: agentOf(action, state),
    user: userOf(action, state),
    tool: toolOf(action, state),
    args: action.args,
    resource: resourceOf(action),
    environment: state.environment,
  };
  const passport = passportOf(state);
  const whole = passport === undefined ? context : { ...context, passport };
  return action.mcp === undefined ? whole : { ...whole, mcp: action.mcp };
}

/** The registered goal of an agent takes precedence over a goal that the caller states. */
function agentOf({ agentId, goal: stated }: Action, { agent }: DecisionState): JsonObject {
  const goal = agent?.goal ?? stated;
  if (agent === undefined) return goal === undefined ? { id: agentId } : { id: agentId, goal };
  const { name } = agent;
  return goal === undefined ? { id: agentId, name } : { id: agentId, name, goal };
}

/** The directory record of the action's user. */
export function directoryUserOf(
  { userId }: Action,
  { user }: DecisionState,
): DirectoryUser | undefined {
  return user?.id === userId ? user : undefined;
}

function userOf(action: Action, state: DecisionState): JsonObject {
  const { userId } = action;
  const user = directoryUserOf(action, state);
  if (user === undefined) return { id: userId };
  const { email, role } = user;
  if (email === undefined) return role === undefined ? { id: userId } : { id: userId, role };
  return role === undefined ? { id: userId, email } : { id: userId, email, role };
}

function toolOf(action: Action, { tool }: DecisionState): JsonObject {
  return tool === undefined
    ? { name: action.tool }
    : {
        name: action.tool,
        current_manifest_hash: tool.manifestHash,
        risk_tier: tool.riskTier,
      };
}

function passportOf({ passport }: DecisionState): JsonObject | undefined {
  if (passport?.form !== 'signed') return undefined;
  const { goal, resource_constraints, aud, tenant_id } = passport.claims;
  return { goal, resource_constraints, audience: aud, tenant_id };
}

function resourceOf(action: Action): JsonObject {
  const { type, id } = parseResource(action.resource);
  const customer_id = customerOf(type, id, action.args);
  if (type === undefined) return customer_id === undefined ? { id } : { id, customer_id };
  return customer_id === undefined ? { id, type } : { id, type, customer_id };
}

/**
 * The customer of a `customer:<id>` resource, or else `args.customer_id`. Absent if both are
 * present and differ, because the owner is then ambiguous.
 */
function customerOf(type: string | undefined, id: string, args: JsonObject): JsonValue | undefined {
  const stated = Object.hasOwn(args, 'customer_id') ? args.customer_id : undefined;
  if (type !== 'customer') return stated;
  return stated === undefined || isWrittenAs(stated, id) ? id : undefined;
}

/** Accepts text and numbers only, because an agent controls how an object converts to text. */
function isWrittenAs(value: JsonValue, id: string): boolean {
  return value === id || (typeof value === 'number' && String(value) === id);
}

/** The facts about the decision's state that evidence stores. */
export function seenFacts(action: Action, state: DecisionState): SeenFacts {
  const { agent, passport } = state;
  return {
    agentName: agent?.name,
    isGoalRegistered: agent?.goal !== undefined,
    userRole: directoryUserOf(action, state)?.role,
    isApprovalBound: passport?.form === 'signed' && passport.claims.approval_hash !== null,
  };
}

/** The facts as JSON for a decision's event, members in canonical order. */
export function seenRecord(seen: SeenFacts | undefined): JsonObject | undefined {
  if (seen === undefined) return undefined;
  return {
    agent_name: seen.agentName,
    approval_bound: seen.isApprovalBound || undefined,
    goal_registered: seen.isGoalRegistered || undefined,
    user_role: seen.userRole,
  };
}
