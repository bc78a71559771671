import type { JsonObject } from '../base/json.ts';
import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import type { Action } from '../vocabulary/action.ts';

/** The parts of an action that a human approves. Goal, mode and audience are not included. */
export interface ActionIdentity {
  readonly tenant: string;
  readonly agent_id: string;
  readonly user_id: string;
  readonly tool: string;
  readonly resource: string;
  readonly args: JsonObject;
  /** Members of an MCP message other than its arguments. If undefined, the digest omits them. */
  readonly mcp?: JsonObject | undefined;
  /** Hash of the tool's manifest; null for an unregistered tool. */
  readonly manifest_hash: string | null;
}

/** Returns `sha256:<hex>` of the canonical JSON (RFC 8785). Equal digests mean equal actions. */
export function actionDigest(identity: ActionIdentity): string {
  const { tenant, agent_id, user_id, tool, resource, args, mcp, manifest_hash } = identity;
  const always = { tenant, agent_id, user_id, tool, resource, args, manifest_hash };
  return sha256(canonicalJson(mcp === undefined ? always : { ...always, mcp }));
}

/** Returns the digest of an action. `manifestHash` is the hash of the tool's current manifest. */
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
