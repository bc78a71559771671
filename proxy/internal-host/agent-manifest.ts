import type { JsonObject } from '../../shared/base/json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { usageSoFar } from '../../shared/decision/usage.ts';
import { matchesAnyGlob } from '../../shared/glob/glob.ts';
import { globsCertainlyIntersect } from '../../shared/glob/glob-intersection.ts';
import type { Identity } from '../base/identity.ts';
import { recordedTool } from '../records/call-records.ts';
import type { Replica } from '../replica/replica.ts';
import type { UsageCounter } from '../replica/usage-counter.ts';

interface ManifestDeps {
  readonly replica: Replica;
  readonly identity: Identity;
  readonly usage: Pick<UsageCounter, 'of'>;
}

/**
 * The calls that this agent may make: its capabilities, the bound tools, and for each tool the
 * policies' verdict before its arguments are known. If every call is denied, `reason_code` states
 * why. Contains no secrets and nothing about other agents.
 */
export function agentManifest(sidecar: ManifestDeps): JsonObject {
  const { replica, identity } = sidecar;
  const agent = replica.agent(identity.agentId);
  const revocation = replica.revocationOf(identity.agentId);
  return {
    agent_id: identity.agentId,
    user_id: identity.userId,
    environment: identity.environment,
    mode: replica.tenant.mode,
    ...(revocation === undefined ? {} : { reason_code: revocation }),
    capabilities: [...(agent?.capabilities ?? [])],
    tools: visibleBindings(replica, identity.agentId).map((binding) => describe(binding, sidecar)),
  };
}

/** The bindings that an agent may see: those that its capabilities could cover. */
export function visibleBindings(
  replica: Pick<Replica, 'bindings' | 'agent'>,
  agentId: string,
): readonly Binding[] {
  const capabilities = replica.agent(agentId)?.capabilities ?? [];
  return replica.bindings.filter((binding) => concerns(binding, capabilities));
}

/** True if an agent with these capabilities may see the binding. */
function concerns({ protocol, name, tool }: Binding, capabilities: readonly string[]): boolean {
  switch (protocol) {
    case 'passthrough':
      return true;
    case 'http':
      return tool !== undefined && matchesAnyGlob(capabilities, tool, 'tool');
    case 'mcp':
      // Only the server knows its tools, so one possible tool that the capabilities cover is
      // enough.
      return globsCertainlyIntersect(capabilities, [`mcp.${name}.**`, `mcp.${name}/**`], 'tool');
  }
}

function describe(
  { name, protocol, tool, host, method, path }: Binding,
  { replica, identity: { agentId }, usage: counter }: ManifestDeps,
): JsonObject {
  const where = { name, protocol, host, ...(method && { method }), ...(path && { path }) };
  if (tool === undefined) return where;
  const { policies, clock } = replica;
  const usage = usageSoFar(
    { tool, agentId },
    { policies, usage: counter.of(recordedTool(tool)) },
    clock.now(),
  );
  const { decision, reasonCode } = policies.evaluate({
    tool: { name: tool },
    args: {},
    ...(usage === undefined ? {} : { usage }),
  });
  return { ...where, tool, without_arguments: { decision, reason_code: reasonCode } };
}
