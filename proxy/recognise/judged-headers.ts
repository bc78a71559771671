import type { JsonObject } from '../../shared/base/json.ts';
import { allowedHeaders } from '../../shared/binding/headers.ts';
import { sha256 } from '../../shared/crypto/hash.ts';

/** Headers of a binding's own that are forwarded to an MCP server unjudged. */
export const unjudgedHeaders: Readonly<Record<string, string>> = {
  authorization: 'proves who calls, and is renewed between a call and its retry',
  cookie: 'proves who calls, and is renewed between a call and its retry',
};

/** A name by which a value is a secret: policies and approvals see its digest only. */
const secretName = /auth|cookie|key|secret|token|password|session/;

/**
 * The headers that a binding lets through beside the standard ones, as policies see them. Undefined
 * where there are none.
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
