import { GatewayError } from '../errors/gateway-error.ts';
import { isMethodHeader } from './method-override.ts';

/** The agent's request headers that are forwarded on every bound call, in lower case. */
const allowed: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'idempotency-key',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-unmodified-since',
  'traceparent',
  'tracestate',
  'user-agent',
]);

/** Headers defined as lists (RFC 9110 section 5.3): repeated lines form one list. */
const lists: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'if-match',
  'if-none-match',
  'tracestate',
]);

/**
 * Names that no binding may allow: framing and hop-by-hop headers, headers that Sallyport sets, and
 * headers that make an upstream see another method, path, host or encoding than the one that was
 * evaluated.
 */
const neverAllowed: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-envoy-original-path',
  'x-host',
  'x-override-url',
  'x-rewrite-url',
]);
const neverAllowedPrefix =
  /^(?:action-|mcp-|proxy-|sallyport-|x-forwarded-|x-original-|x-http-|x-method)/;
const tokenForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Returns the reason why a binding must not allow a header name, or undefined. */
export function headerProblem(name: string): string | undefined {
  if (!tokenForm.test(name)) return `"${name}" is not a header name`;
  // CGI and its successors do not distinguish `_` from `-` in header names.
  const lower = name.toLowerCase().replaceAll('_', '-');
  return neverAllowed.has(lower) || neverAllowedPrefix.test(lower) || isMethodHeader(name)
    ? `${name} is never forwarded from an agent; remove it`
    : undefined;
}

/**
 * Selects from `[name, value, …]` the headers that may be forwarded on a bound call: the standard
 * names and those in `more`. Repeated list headers are joined; other repeated headers are refused.
 */
export function allowedHeaders(
  raw: readonly string[],
  more: readonly string[] | undefined,
): string[] {
  const extra = more?.map((name) => name.toLowerCase()) ?? [];
  const picked = new Map<string, string>();
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    if (!allowed.has(name) && !(extra.includes(name) && headerProblem(name) === undefined))
      continue;
    const value = raw[index + 1] ?? '';
    const before = picked.get(name);
    if (before !== undefined && !lists.has(name)) {
      throw new GatewayError('proxy.request_invalid', {
        message: `The header ${name} is given more than once; send it once.`,
      });
    }
    picked.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return [...picked].flat();
}
