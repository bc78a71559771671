import type { IncomingMessage } from 'node:http';
import type { JsonObject } from '../../shared/base/json.ts';
import { allowedHeaders } from '../../shared/binding/headers.ts';
import { isMethodHeader } from '../../shared/binding/method-override.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { RecognisedAction } from '../call/recognition.ts';

/** Hop-by-hop headers (RFC 9110, section 7.6.1), and headers that the next hop sets itself. */
const ofThisHop: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-real-ip',
]);
const neverForwarded = /^(?:action-|proxy-|sallyport-|x-forwarded-)/;

/** Headers with which frameworks and gateways override a request's method, path or host. */
const overrides: ReadonlySet<string> = new Set([
  'x-envoy-original-path',
  'x-host',
  'x-http-host-override',
  'x-original-host',
  'x-original-method',
  'x-original-path',
  'x-original-uri',
  'x-original-url',
  'x-override-url',
  'x-rewrite-url',
]);

/** Folds a header name: CGI and its descendants do not distinguish `_` from `-`. */
function readName(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

/** Returns the value of a header; refuses a header that occurs more than once. */
export function singleHeader(req: IncomingMessage, name: string): string | undefined {
  let found: string | undefined;
  const raw = req.rawHeaders;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.toLowerCase() !== name) continue;
    if (found !== undefined) {
      throw new GatewayError('proxy.request_invalid', {
        message: `The header ${name} is given more than once.`,
      });
    }
    found = raw[index + 1];
  }
  return found;
}

/** The agent's hints about its call: the passport it presents, its goal, an idempotency key. */
export function readHints(req: IncomingMessage): RecognisedAction['hints'] {
  return {
    passport: singleHeader(req, 'action-passport'),
    goal: goalText(singleHeader(req, 'action-goal')),
    idempotencyKey: singleHeader(req, 'action-idempotency-key'),
    waitSeconds: waitSeconds(req.headers.prefer),
  };
}

// RFC 7240, section 2: a value is a token or quoted, and parameters may follow.
const waitForm = /^wait[ \t]*(?:=[ \t]*(?:"(\d{1,9})"|(\d{1,9})))?[ \t]*(?:;|$)/i;

/** The first `wait` preference, in seconds; undefined if it has no valid value. */
function waitSeconds(prefer: string | readonly string[] | undefined): number | undefined {
  const text = typeof prefer === 'string' ? prefer : (prefer ?? []).join(',');
  for (const preference of text.split(',')) {
    const found = waitForm.exec(preference.trim());
    if (found === null) continue;
    const value = found[1] ?? found[2];
    return value === undefined ? undefined : Number(value);
  }
  return undefined;
}

/** Decodes a goal in UTF-8 again, because Node decodes header bytes as Latin-1. */
function goalText(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  const text = Buffer.from(value, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? value : text;
}

/** Refuses a request whose headers override its method, path or host. */
export function refuseOverrides(req: IncomingMessage): void {
  for (const name of Object.keys(req.headers)) {
    if (!overrides.has(readName(name)) && !isMethodHeader(name)) continue;
    throw new GatewayError('proxy.method_refused', {
      message: `The header ${name} would change what is called; call that itself.`,
    });
  }
}

/**
 * Returns the agent's headers for a request that is forwarded unchanged; omits hop-by-hop headers
 * and Sallyport's own.
 */
export function forwardedHeaders(req: IncomingMessage): string[] {
  const named = new Set(
    (req.headers.connection ?? '').split(',').map((name) => readName(name.trim())),
  );
  const kept: string[] = [];
  const raw = req.rawHeaders;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    const read = readName(name);
    if (ofThisHop.has(read) || neverForwarded.test(read) || named.has(read)) continue;
    kept.push(name, raw[index + 1] ?? '');
  }
  return kept;
}

/** Headers that a binding may allow and that are forwarded to an MCP server unjudged. */
export const unjudgedHeaders: Readonly<Record<string, string>> = {
  authorization: 'proves who calls, and is renewed between a call and its retry',
  cookie: 'proves who calls, and is renewed between a call and its retry',
};

/** Header names that indicate a secret; policies and approvals see only a digest of the value. */
const secretName = /auth|cookie|key|secret|token|password|session/;

/**
 * The headers that a binding allows in addition to the standard ones, as policies see them;
 * undefined if there are none.
 */
export function judgedHeaders(
  raw: readonly string[],
  more: readonly string[] | undefined,
): JsonObject | undefined {
  if (more === undefined || more.length === 0) return undefined;
  const standard = new Set(pairs(allowedHeaders(raw, undefined)).map(([name]) => name));
  const judged = pairs(allowedHeaders(raw, more)).filter(
    ([name]) => !standard.has(name) && !Object.hasOwn(unjudgedHeaders, name),
  );
  if (judged.length === 0) return undefined;
  return Object.fromEntries(
    judged.map(([name, value]) => [name, secretName.test(name) ? sha256(value) : value]),
  );
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, index) =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ''] as [string, string]] : [],
  );
}
