import type { JsonObject } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Binding } from './binding.ts';
import { type BuiltRequest, buildRequest } from './build.ts';

export interface UpstreamUrl {
  readonly scheme: 'http' | 'https';
  /** Without brackets, as in an Exchange. */
  readonly host: string;
  readonly port: number;
  /** A path template. */
  readonly path: string;
}

/**
 * Parses the URL to which a bound tool is forwarded. The path may be a template. A URL parser would
 * rewrite a template, so the path is cut from the text unchanged. Undefined unless the text is an
 * absolute http or https URL without user, query and fragment.
 */
export function readUpstreamUrl(text: string): UpstreamUrl | undefined {
  const [, scheme = '', authority = '', path = ''] =
    /^(https?):\/\/([^/?#\\\s@]+)(\/[^#\\\s]*)?$/i.exec(text) ?? [];
  const url = URL.parse(`${scheme}://${authority}/`);
  if (url === null || url.hostname === '') return undefined;
  const isSecure = url.protocol === 'https:';
  return {
    scheme: isSecure ? 'https' : 'http',
    host: url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, ''),
    port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
    path: path === '' ? '/' : path,
  };
}

export interface UpstreamRequest extends BuiltRequest {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
}

// Caches, for each binding, the binding derived from its upstream URL, so that the URL's path
// template is parsed once.
const upstreamBindings = new WeakMap<Binding, { url: UpstreamUrl; binding: Binding }>();

/**
 * Builds the request by which `/v1/actions/execute` forwards a bound tool. Arguments fill the
 * parameters of the URL's path; other arguments go into the query (methods without a body) or the
 * body.
 */
export function buildUpstreamRequest(binding: Binding, args: JsonObject): UpstreamRequest {
  const target = upstreamBindings.get(binding) ?? readTarget(binding);
  upstreamBindings.set(binding, target);
  const built = buildRequest(target.binding, args);
  const fixed = Object.entries(binding.upstream?.headers ?? {}).map(
    ([name, value]) => [name.toLowerCase(), value] as const,
  );
  const own = fixed.filter(([name]) => name !== 'content-type').flat();
  const { scheme, host, port } = target.url;
  return { ...built, headers: [...built.headers, ...own], scheme, host, port };
}

function readTarget(binding: Binding): { url: UpstreamUrl; binding: Binding } {
  const { upstream } = binding;
  const url = upstream === undefined ? undefined : readUpstreamUrl(upstream.url);
  if (upstream === undefined || url === undefined) {
    throw new GatewayError('binding.invalid', {
      message: `The binding ${binding.name} has no upstream; set its upstream.url.`,
    });
  }
  const { body, ...rest } = binding;
  // `form` is kept if the upstream's method has a body; otherwise that method determines the kind
  // of body.
  const form = body === 'form' && /^(?:POST|PUT|PATCH)$/.test(upstream.method);
  const target = { ...rest, method: upstream.method, path: url.path };
  return { url, binding: form ? { ...target, body } : target };
}
