import { randomBytes } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { hmacSha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import { type ArgumentsSetting, digestOnly } from './arguments-setting.ts';
import { recordableText } from './recordable-text.ts';
import { redactArguments } from './redact.ts';

/** How much of arguments their shape tells. */
export const shapeLimits = {
  depth: 4,
  members: 32,
  /** Of all levels together: whatever the arguments, the ledger must be able to take the event. */
  names: 400,
  /** The same for what an MCP message carries beside its arguments. */
  mcpNames: 100,
  nameCharacters: 100,
} as const;
const saltBytes = 16;

/** Drawn for many salts at a time, each of which is given out once: a draw costs more than its bytes. */
let salts = Buffer.alloc(0);

/** What the ledger keeps of a call's arguments: what they look like, and a digest nobody can guess from. */
interface ArgumentsEvidence {
  readonly args_shape: JsonValue;
  /** `hmac-sha256:<hex>` over the JCS form, keyed with a salt of this event alone. */
  readonly args_digest: string;
  /** The same of what was kept of them; undefined where nothing was. */
  readonly args_kept_digest: string | undefined;
  /** The same two of what an MCP message carried beside its arguments, where it did. */
  readonly mcp_shape: JsonValue | undefined;
  readonly mcp_digest: string | undefined;
}

/** Arguments as evidence: what goes into the event, and what is kept apart from it, encrypted. */
export interface ReducedArguments {
  readonly evidence: ArgumentsEvidence;
  /** Base64. */
  readonly salt: string;
  /** Redacted, where the tenant keeps that. */
  readonly kept: JsonObject | undefined;
}

/**
 * Reduces arguments to evidence. The salt is kept apart from the event, encrypted: with it the
 * digest proves the arguments, without it they cannot be guessed, and deleting it forgets them.
 */
export function argumentsEvidence(
  args: JsonObject,
  { keep, sensitiveFields }: ArgumentsSetting = digestOnly,
  mcp?: JsonObject,
): ReducedArguments {
  const salt = newSalt();
  const kept = keep === 'redacted' ? redactArguments(args, sensitiveFields) : undefined;
  return {
    evidence: {
      args_digest: saltedDigest(salt, args),
      args_kept_digest: kept && saltedDigest(salt, kept),
      args_shape: shapeOf(args, 0, { left: shapeLimits.names }),
      mcp_digest: mcp && saltedDigest(salt, mcp),
      mcp_shape: mcp && shapeOf(mcp, 0, { left: shapeLimits.mcpNames }),
    },
    salt: salt.toString('base64'),
    kept,
  };
}

/** The digest of arguments under the salt of their event. */
export function saltedDigest(salt: Uint8Array, args: JsonObject): string {
  return `hmac-sha256:${hmacSha256(salt, canonicalJson(args))}`;
}

function newSalt(): Buffer {
  if (salts.length === 0) salts = randomBytes(256 * saltBytes);
  const salt = salts.subarray(0, saltBytes);
  salts = salts.subarray(saltBytes);
  return salt;
}

interface Budget {
  left: number;
}

/** Names and types without values: `{amount: 'number', to: ['string']}`; bounded in depth and width. */
function shapeOf(value: JsonValue | undefined, depth: number, budget: Budget): JsonValue {
  if (value === null || value === undefined) return 'null';
  if (typeof value !== 'object') return typeof value;
  if (depth >= shapeLimits.depth) return Array.isArray(value) ? 'array' : 'object';
  if (!isJsonObject(value)) return value.length === 0 ? [] : [shapeOf(value[0], depth + 1, budget)];
  const shape: Record<string, JsonValue> = {};
  // In order, so that writing the event down need not sort it.
  for (const name of Object.keys(value).slice(0, shapeLimits.members).sort()) {
    if (budget.left <= 0) break;
    budget.left -= 1;
    shape[recordableName(name)] = shapeOf(value[name], depth + 1, budget);
  }
  return shape;
}

/** The agent chose the name: what no reader would take must not keep the whole event out. */
function recordableName(name: string): string {
  if (name === '__proto__') return '(__proto__)';
  return recordableText(name.slice(0, shapeLimits.nameCharacters));
}
