import type { JsonObject } from '../../shared/base/json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { hostDistance, namedHost } from '../../shared/binding/host-distance.ts';
import { authorityKey, mcpPathByDefault } from '../../shared/binding/match.ts';
import { errorKindOf } from '../../shared/errors/error-kinds.ts';
import type { Identity } from '../base/identity.ts';
import type { CallFacts } from '../call/call-facts.ts';
import type { Refusal } from '../call/refusal.ts';
import { visibleBindings } from '../internal-host/agent-manifest.ts';
import type { Replica } from '../replica/replica.ts';

interface JudgedDeps {
  readonly replica: Pick<Replica, 'bindings' | 'agent'>;
  readonly identity: Pick<Identity, 'agentId'>;
}

const charsMax = 300;
/** Maximum number of bindings that a refusal lists. */
const shownMax = 10;

interface Judged {
  readonly tool: string;
  readonly resource: string;
  readonly host: string;
  /** The host's bindings that are visible to the agent. */
  readonly bound: readonly Binding[];
  readonly nearest: Binding | undefined;
}

/**
 * Describes the judged call for a refusal: tool, resource, host, and the host's bindings in the
 * agent's manifest. If the manifest has none, the binding on the most similar host is named.
 */
function judge(facts: CallFacts, deps: JudgedDeps): Judged {
  const visible = visibleBindings(deps.replica, deps.identity.agentId);
  const host = hostKey(facts.host);
  const bound = visible.filter((binding) => binding.host === host);
  return {
    tool: facts.tool.slice(0, charsMax),
    resource: facts.resource.slice(0, charsMax),
    host,
    bound,
    nearest: bound.length > 0 ? undefined : nearestTo(host, visible),
  };
}

function detailsOf({ tool, resource, host, bound, nearest }: Judged): JsonObject {
  const bindings = bound.map(({ name }) => name);
  return {
    tool,
    resource,
    host,
    bindings,
    ...(nearest === undefined ? {} : { nearest: { host: nearest.host, binding: nearest.name } }),
  };
}

/**
 * Adds the judged call to the refusal's `details`, and to its message if the call may be unbound.
 */
export function withJudged(
  refusal: Refusal,
  { deps, facts }: { readonly deps: JudgedDeps; readonly facts: CallFacts },
): Refusal {
  const judged = judgedOrNone(facts, deps);
  if (judged === undefined) return refusal;
  const details = { ...refusal.details, ...detailsOf(judged) };
  const { reasonCode } = refusal;
  if (errorKindOf(reasonCode)?.mayBeUnbound !== true) return { ...refusal, details };
  const { tool, resource, host } = judged;
  const hint = judged.bound.length === 0 ? unboundHint(judged) : boundHint(reasonCode, judged);
  const said = refusal.message ?? 'The call was refused.';
  const call = `Judged: tool ${tool}, resource ${resource}, host ${host}.`;
  return {
    ...refusal,
    details,
    message: [said, call, ...(hint === undefined ? [] : [hint])].join(' '),
  };
}

/**
 * Like `judge`, but undefined without a verified snapshot; the refusal itself then states that the
 * snapshot is missing.
 */
function judgedOrNone(facts: CallFacts, deps: JudgedDeps): Judged | undefined {
  try {
    return judge(facts, deps);
  } catch {
    return undefined;
  }
}

/** A sentence for a host without a binding in the agent's manifest. */
function unboundHint({ host, nearest }: Judged): string {
  const other = nearest === undefined ? '' : `; ${nearest.host} is bound to ${nearest.name}`;
  return `The host ${host} has no binding for this agent${other}.`;
}

/** A sentence for a call that no binding of its host covers; undefined for every other call. */
function boundHint(reasonCode: string, { host, bound }: Judged): string | undefined {
  if (reasonCode !== 'proxy.unbound_call') return undefined;
  const shown = bound.slice(0, shownMax).map(describe);
  const more = bound.length - shown.length;
  return `Bound on ${host}: ${shown.join(', ')}${more === 0 ? '' : `, and ${more} more`}.`;
}

function describe({ name, protocol, method, path }: Binding): string {
  switch (protocol) {
    case 'http':
      return `${name} (${method} ${path})`;
    case 'mcp':
      return `${name} (MCP at ${path ?? mcpPathByDefault})`;
    case 'passthrough':
      return `${name} (passthrough)`;
  }
}

function hostKey(host: string): string {
  const mark = host.lastIndexOf(':');
  return authorityKey(host.slice(0, mark), Number(host.slice(mark + 1)));
}

/** The binding on the host with the most similar name, if one is similar enough. */
function nearestTo(host: string, bindings: readonly Binding[]): Binding | undefined {
  const wanted = namedHost(host);
  let best: { readonly binding: Binding; readonly distance: number } | undefined;
  for (const binding of bindings) {
    const distance = hostDistance(wanted, namedHost(binding.host));
    if (distance < (best?.distance ?? Number.POSITIVE_INFINITY)) best = { binding, distance };
  }
  return best?.binding;
}
