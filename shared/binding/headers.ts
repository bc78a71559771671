import { GatewayError } from '../errors/gateway-error.ts';
import { isMethodHeader } from './method-override.ts';

/** Request headers of an agent that may go upstream on a bound call, lower case. */
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

/** Headers that are lists by definition (RFC 9110, section 5.3): several lines mean one list. */
const lists: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'if-match',
  'if-none-match',
  'tracestate',
]);

/**
 * Names that no binding may let through: framing and hops, what Sallyport sets itself, and what
 * makes an upstream see another method, path, host or encoding than the one that was judged.
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

/** What is wrong with a header name that a binding wants to let through, if anything. */
export function headerProblem(name: string): string | undefined {
  if (!tokenForm.test(name)) return `"${name}" is not a header name`;
  // CGI and all that descends from it cannot tell `_` from `-` here.
  const lower = name.toLowerCase().replaceAll('_', '-');
  return neverAllowed.has(lower) || neverAllowedPrefix.test(lower) || isMethodHeader(name)
    ? `${name} can never come from an agent`
    : undefined;
}

/**
 * Picks from `[name, value, …]` what may go upstream on a bound call: the standard names and
 * those in `more`. A name given twice is joined where it is a list, and refused elsewhere.
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
        message: `The header ${name} is given more than once.`,
      });
    }
    picked.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return [...picked].flat();
}
