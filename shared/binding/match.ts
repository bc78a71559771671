import { formatAuthority, splitAuthority } from '../base/host.ts';
import type { Binding } from './binding.ts';
import { templateOf } from './build.ts';
import {
  matchSegments,
  type PathTemplate,
  parsePathTemplate,
  splitTarget,
  templatesOverlap,
} from './path.ts';

/** A call that matches a binding, with the values of its path parameters. */
export interface BoundCall {
  readonly binding: Binding;
  readonly template: PathTemplate;
  readonly parameters: readonly (readonly [string, string])[];
}

/** The bindings of one host. */
interface HostBindings {
  /** Set when the whole host is passed through. */
  readonly passthrough: Binding | undefined;
  /** The MCP server whose endpoint has this path; `query` is the raw text. */
  mcpAt(segments: readonly string[], query: string): Binding | undefined;
  /**
   * The most specific `http` binding of this call; undefined if none matches or several are equally
   * specific.
   */
  callAt(method: string, segments: readonly string[]): BoundCall | undefined;
}

export interface BindingIndex {
  /** Undefined if the host has no bindings. `host` is without brackets, as in an Exchange. */
  forHost(host: string, port: number): HostBindings | undefined;
}

/** The default path of an MCP server. */
export const mcpPathByDefault = '/mcp';

/**
 * The key under which a host is bound. The default ports of both schemes count as one port, so that
 * calling 443 without TLS, or 80 with TLS, cannot bypass the bindings.
 */
export function authorityKey(host: string, port: number): string {
  return formatAuthority({ host, port: port === 80 ? 443 : port }, 443);
}

/**
 * A host in the canonical form of `authorityKey`, in which bindings, credentials and calls are
 * compared. Undefined for text that is not a single host.
 */
export function boundHost(text: string): string | undefined {
  const authority = splitAuthority(text, 443);
  return authority === undefined ? undefined : authorityKey(authority.host, authority.port);
}

/** The key for a binding's `host`. An invalid host matches no call. */
function keyOf({ host }: Binding): string {
  return boundHost(host) ?? host;
}

/**
 * Compiles bindings for look-up. An invalid binding still restricts its host: only calls that match
 * other bindings are allowed there.
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
  // A passthrough binding is ignored if its host has other bindings, because it would bypass the
  // others.
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

/** Path and fixed query of an MCP endpoint. */
export function endpointOf(binding: Binding): { path: string; query: string } {
  return splitTarget(binding.path ?? mcpPathByDefault);
}

/**
 * True if two bindings are equally specific and some call matches both, so that the match would be
 * ambiguous. Do not call this function with two versions of one binding.
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
  return one.method === other.method && a.literals === b.literals && templatesOverlap(a, b);
}

function coversEndpoint(call: Binding, server: Binding): boolean {
  const template = templateOf(call);
  const endpoint = parsePathTemplate(endpointOf(server).path);
  return template.literals === endpoint.literals && templatesOverlap(template, endpoint);
}
