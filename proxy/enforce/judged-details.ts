import type { Binding } from '../../shared/binding/binding.ts';
import { authorityKey } from '../../shared/binding/match.ts';
import { errorKindOf } from '../../shared/error-kinds.ts';
import type { JsonObject } from '../../shared/json.ts';
import type { Identity } from '../identity.ts';
import type { Replica } from '../replica/replica.ts';
import { visibleBindings } from './agent-manifest.ts';
import { namedHost } from './near-host.ts';
import type { Way } from './progress.ts';
import type { CallFacts } from './record.ts';
import type { Refusal } from './refuse.ts';

interface JudgedDeps {
  readonly replica: Pick<Replica, 'bindings' | 'agent'>;
  readonly identity: Pick<Identity, 'agentId'>;
}

const charsMax = 300;

/**
 * What a refusal says of the call that was judged: tool, resource, host, and whether the host is
 * bound. Of bindings only those that the agent's manifest shows; where it sees none, the nearest.
 */
function judgedDetails(facts: CallFacts, deps: JudgedDeps): JsonObject {
  const visible = visibleBindings(deps.replica, deps.identity.agentId);
  const host = hostKey(facts.host);
  const bound = visible.filter((binding) => binding.host === host);
  const nearest = bound.length > 0 ? undefined : nearestTo(host, visible);
  return {
    tool: facts.tool.slice(0, charsMax),
    resource: facts.resource.slice(0, charsMax),
    host,
    bindings: bound.map(({ name }) => name),
    ...(nearest === undefined ? {} : { nearest: { host: nearest.host, binding: nearest.name } }),
  };
}

/** The refusal with what it judged in `details`, and in words where nothing matched the call. */
export function withJudged(
  refusal: Refusal,
  { deps, facts }: Pick<Way, 'deps' | 'facts'>,
): Refusal {
  const judged = facts === undefined ? undefined : detailsOrNone(facts(), deps);
  if (judged === undefined) return refusal;
  const details = { ...refusal.details, ...judged };
  if (errorKindOf(refusal.reasonCode)?.mayBeUnbound !== true) return { ...refusal, details };
  const { tool, resource, host } = judged;
  const hint = unboundHint(judged);
  const said = refusal.message ?? 'The call was refused.';
  const call = `Judged: tool ${String(tool)}, resource ${String(resource)}, host ${String(host)}.`;
  return {
    ...refusal,
    details,
    message: [said, call, ...(hint === undefined ? [] : [hint])].join(' '),
  };
}

/** Without a verified snapshot nothing is known of bindings; the refusal says so itself. */
function detailsOrNone(facts: CallFacts, deps: JudgedDeps): JsonObject | undefined {
  try {
    return judgedDetails(facts, deps);
  } catch {
    return undefined;
  }
}

/** A sentence for a host that the agent's manifest shows no binding of; undefined for any other. */
function unboundHint({ host, bindings, nearest }: JsonObject): string | undefined {
  if (!Array.isArray(bindings) || bindings.length > 0) return undefined;
  const known = nearest as { readonly host: string; readonly binding: string } | undefined;
  const other = known === undefined ? '' : `; ${known.host} is bound to ${known.binding}`;
  return `The host ${String(host)} has no binding for this agent${other}.`;
}

function hostKey(host: string): string {
  const mark = host.lastIndexOf(':');
  return authorityKey(host.slice(0, mark), Number(host.slice(mark + 1)));
}

const distanceMax = 2;

/** The same machine first, then the same host on another port, then a name that is spelled alike. */
function nearestTo(host: string, bindings: readonly Binding[]): Binding | undefined {
  const wanted = namedHost(host);
  let best: { readonly binding: Binding; readonly distance: number } | undefined;
  for (const binding of bindings) {
    const distance = distanceOf(wanted, namedHost(binding.host));
    if (distance <= distanceMax && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { binding, distance };
    }
  }
  return best?.binding;
}

type Named = ReturnType<typeof namedHost>;

function distanceOf(one: Named, other: Named): number {
  if (one.name === other.name) return one.port === other.port ? 0 : 0.5;
  return one.port === other.port ? editDistance(one.name, other.name) : Number.POSITIVE_INFINITY;
}

/** Levenshtein's distance; names that differ much in length are not compared. */
function editDistance(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > distanceMax) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? Number.POSITIVE_INFINITY;
}
