import type { JsonObject } from '../base/json.ts';
import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import type { Action } from '../vocabulary/action.ts';

/** Everything about an action that a human approves. Goal, mode and audience are not part of it. */
export interface ActionIdentity {
  readonly tenant: string;
  readonly agent_id: string;
  readonly user_id: string;
  readonly tool: string;
  readonly resource: string;
  readonly args: JsonObject;
  /** Beside the arguments of an MCP message; only an action that has it has it in its digest. */
  readonly mcp?: JsonObject | undefined;
  /** Hash of the tool's manifest; null for a tool that is not registered. */
  readonly manifest_hash: string | null;
}

/** `sha256:<hex>` over the JCS form. Two actions have the same digest only if they are the same. */
export function actionDigest(identity: ActionIdentity): string {
  const { tenant, agent_id, user_id, tool, resource, args, mcp, manifest_hash } = identity;
  const always = { tenant, agent_id, user_id, tool, resource, args, manifest_hash };
  return sha256(canonicalJson(mcp === undefined ? always : { ...always, mcp }));
}

/** The digest of an action on a tool that has (now) this manifest. */
export function digestOf(action: Action, manifestHash: string | undefined): string {
  return actionDigest({
    tenant: action.tenantId,
    agent_id: action.agentId,
    user_id: action.userId,
    tool: action.tool,
    resource: action.resource,
    args: action.args,
    mcp: action.mcp,
    manifest_hash: manifestHash ?? null,
  });
}
