import type { Binding } from '../../shared/binding/binding.ts';
import type { JsonObject } from '../../shared/json.ts';
import type { Identity } from '../identity.ts';
import type { Replica } from '../replica/replica.ts';

/**
 * What this agent may call: its capabilities, the tools that are bound, and what the policies say
 * of each before its arguments are known. Nothing of other agents, and no hosts' secrets.
 */
export function agentManifest({
  replica,
  identity,
}: {
  readonly replica: Replica;
  readonly identity: Identity;
}): JsonObject {
  const agent = replica.agent(identity.agentId);
  return {
    agent_id: identity.agentId,
    user_id: identity.userId,
    environment: identity.environment,
    mode: replica.tenant.mode,
    capabilities: [...(agent?.capabilities ?? [])],
    tools: replica.bindings.map((binding) => describe(binding, replica)),
  };
}

function describe(
  { name, protocol, tool, host, method, path }: Binding,
  replica: Replica,
): JsonObject {
  const where = { name, protocol, host, ...(method && { method }), ...(path && { path }) };
  if (tool === undefined) return where;
  const { decision, reasonCode } = replica.policies.evaluate({ tool: { name: tool }, args: {} });
  return { ...where, tool, without_arguments: { decision, reason_code: reasonCode } };
}
