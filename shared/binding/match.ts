import { formatAuthority, splitAuthority } from '../base/host.ts';
import type { Binding } from './binding.ts';
import { templateOf } from './build.ts';
import {
  matchSegments,
  type PathTemplate,
  parsePathTemplate,
  splitTarget,
  templatesMeet,
} from './path.ts';

/** A call that a binding covers, with the values of its path parameters. */
export interface BoundCall {
  readonly binding: Binding;
  readonly template: PathTemplate;
  readonly parameters: readonly (readonly [string, string])[];
}

/** What is bound on one host. */
interface HostBindings {
  /** Set when the whole host is passed through. */
  readonly passthrough: Binding | undefined;
  /** The MCP server whose endpoint this path is; `query` is its raw text. */
  mcpAt(segments: readonly string[], query: string): Binding | undefined;
  /** The most specific `http` binding of this call; undefined when there is none or no single one. */
  callAt(method: string, segments: readonly string[]): BoundCall | undefined;
}

export interface BindingIndex {
  /** Undefined: nothing is bound on this host. `host` without brackets, as in an Exchange. */
  forHost(host: string, port: number): HostBindings | undefined;
}

/** Where an MCP server listens unless its binding says otherwise. */
export const mcpPathByDefault = '/mcp';

/**
 * The key under which a host is bound. The default ports of both schemes count as one: a bound
 * host cannot be reached around its bindings by calling 443 without TLS or 80 with it.
 */
export function authorityKey(host: string, port: number): string {
  return formatAuthority({ host, port: port === 80 ? 443 : port }, 443);
}

/**
 * A host in the one spelling that bindings, credentials and calls are compared by: that of
 * `authorityKey`. Undefined for anything that is not a single host.
 */
export function boundHost(text: string): string | undefined {
  const authority = splitAuthority(text, 443);
  return authority === undefined ? undefined : authorityKey(authority.host, authority.port);
}

/** `host` of a binding as calls are compared with it; one that is no host is found by no call. */
function keyOf({ host }: Binding): string {
  return boundHost(host) ?? host;
}

/**
 * Compiles bindings for look-up. A binding that cannot be read closes its host all the same:
 * nothing is reachable there but what other bindings cover.
 */
export function compileBindings(bindings: readonly Binding[]): BindingIndex {
  const hosts = new Map<string, Binding[]>();
  for (const binding of bindings) {
    const key = keyOf(binding);
    hosts.set(key, [...(hosts.get(key) ?? []), binding]);
  }
  const compiled = new Map([...hosts].map(([key, bound]) => [key, compileHost(bound)]));
  return { forHost: (host, port) => compiled.get(authorityKey(host, port)) };
}

interface Candidate {
  readonly binding: Binding;
  readonly template: PathTemplate;
}

function compileHost(bindings: readonly Binding[]): HostBindings {
  const ofProtocol = (protocol: Binding['protocol']) =>
    bindings.filter((binding) => binding.protocol === protocol);
  const calls = new Map<string, Candidate[]>();
  for (const candidate of ofProtocol('http').flatMap(readable)) {
    const key = callKey(candidate.binding.method ?? '', candidate.template.segments.length);
    calls.set(key, [...(calls.get(key) ?? []), candidate]);
  }
  const servers = ofProtocol('mcp').map((binding) => ({ binding, ...endpointOf(binding) }));
  // Beside other bindings a passthrough would be a way around them; then it does not count.
  const alone = bindings.length === 1 ? bindings[0] : undefined;
  return {
    passthrough: alone?.protocol === 'passthrough' ? alone : undefined,
    mcpAt: (segments, query) => {
      const path = `/${segments.join('/')}`;
      return servers.find((server) => server.path === path && server.query === query)?.binding;
    },
    callAt: (method, segments) =>
      mostSpecific(calls.get(callKey(method, segments.length)) ?? [], segments),
  };
}

function callKey(method: string, segments: number): string {
  return `${method} ${segments}`;
}

function readable(binding: Binding): Candidate[] {
  try {
    return [{ binding, template: templateOf(binding) }];
  } catch {
    return [];
  }
}

function mostSpecific(
  candidates: readonly Candidate[],
  segments: readonly string[],
): BoundCall | undefined {
  let best: BoundCall | undefined;
  let isTied = false;
  for (const { binding, template } of candidates) {
    const parameters = matchSegments(template, segments);
    if (parameters === undefined) continue;
    const lead = template.literals - (best?.template.literals ?? -1);
    if (lead > 0) best = { binding, template, parameters };
    if (lead >= 0) isTied = lead === 0;
  }
  return isTied ? undefined : best;
}

/** Path and literal query of an MCP endpoint. */
export function endpointOf(binding: Binding): { path: string; query: string } {
  return splitTarget(binding.path ?? mcpPathByDefault);
}

/**
 * True when two bindings are equally specific and some call fits both, so that none could say
 * which one is meant. Not to be asked about two versions of the same binding.
 */
export function overlaps(one: Binding, other: Binding): boolean {
  if (keyOf(one) !== keyOf(other)) return false;
  if (one.protocol === 'passthrough' || other.protocol === 'passthrough') return true;
  if (one.protocol === 'mcp' && other.protocol === 'mcp') {
    const [a, b] = [endpointOf(one), endpointOf(other)];
    return a.path === b.path && a.query === b.query;
  }
  if (one.protocol === 'mcp') return coversEndpoint(other, one);
  if (other.protocol === 'mcp') return coversEndpoint(one, other);
  const [a, b] = [templateOf(one), templateOf(other)];
  return one.method === other.method && a.literals === b.literals && templatesMeet(a, b);
}

function coversEndpoint(call: Binding, server: Binding): boolean {
  const template = templateOf(call);
  const endpoint = parsePathTemplate(endpointOf(server).path);
  return template.literals === endpoint.literals && templatesMeet(template, endpoint);
}
