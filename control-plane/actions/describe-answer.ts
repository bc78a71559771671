import { isUtf8 } from 'node:buffer';
import type { JsonValue } from '../../shared/base/json.ts';
import { parseStrictJson } from '../../shared/base/strict-json.ts';
import type { ExecutionResult } from '../../shared/contract/actions.ts';
import type { AnswerHeaders, UpstreamAnswer } from '../platform/upstream/answer-collector.ts';

/** Response headers that are forwarded to the caller. All others, such as cookies, are dropped. */
const forwardedHeaders = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-location',
  'content-range',
  'content-type',
  'date',
  'etag',
  'expires',
  'last-modified',
  'link',
  'location',
  'ratelimit',
  'ratelimit-policy',
  'request-id',
  'retry-after',
  'x-request-id',
] as const;

/** Builds the `execute` response from an upstream's response. */
export function describeAnswer({
  status,
  headers,
  body,
  truncated,
}: UpstreamAnswer): ExecutionResult {
  return {
    status,
    headers: Object.fromEntries(
      forwardedHeaders.flatMap((name) => {
        const value = textOf(headers, name);
        return value === undefined ? [] : [[name, value]];
      }),
    ),
    ...describeBody(body, { type: textOf(headers, 'content-type') ?? '', truncated }),
    body_bytes: body.length,
    truncated,
  };
}

/**
 * Returns parsed JSON only if every parser reads the same value and serialising the value again
 * loses nothing. Otherwise returns the text as received, so that no number is rounded and no key is
 * lost.
 */
function describeBody(
  body: Buffer,
  { type, truncated }: { readonly type: string; readonly truncated: boolean },
): Pick<ExecutionResult, 'body' | 'body_format'> {
  if (body.length === 0) return { body_format: 'none' };
  const json = /^application\/(?:[\w.+-]+\+)?json\b/i.test(type) && !truncated;
  const value = json ? readJson(body) : undefined;
  if (value !== undefined) return { body: value, body_format: 'json' };
  const text = dropPartialCharacter(body, truncated);
  if (isUtf8(text) && !text.includes(0))
    return { body: text.toString('utf8'), body_format: 'text' };
  return { body: body.toString('base64'), body_format: 'base64' };
}

function readJson(body: Buffer): JsonValue | undefined {
  try {
    const value = parseStrictJson(body);
    return holdsPrototype(value) ? undefined : value;
  } catch {
    return undefined;
  }
}

/**
 * Returns whether a `__proto__` key occurs at any depth. Code that merges such a value would set a
 * prototype.
 */
function holdsPrototype(value: JsonValue | undefined): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(holdsPrototype);
}

/** Drops the last character if the byte limit cut it in two. */
function dropPartialCharacter(body: Buffer, truncated: boolean): Buffer {
  if (!truncated) return body;
  for (let cut = 0; cut < 4 && cut < body.length; cut++) {
    const shorter = body.subarray(0, body.length - cut);
    if (isUtf8(shorter)) return shorter;
  }
  return body;
}

function textOf(headers: AnswerHeaders, name: string): string | undefined {
  const value = headers[name];
  const text = typeof value === 'string' ? value : value?.join(', ');
  return text?.slice(0, 8_192);
}
