import { randomBytes } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { hmacSha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import { type ArgumentsSetting, digestOnly } from './arguments-setting.ts';
import { recordableText } from './recordable-text.ts';
import { redactArguments } from './redact.ts';

/** Limits of the recorded shape of arguments. */
export const shapeLimits = {
  depth: 4,
  members: 32,
  /**
   * Maximum number of names on all levels together, so that the ledger can accept the event for any
   * arguments.
   */
  names: 400,
  /** Like `names`, for the members of an MCP message other than its arguments. */
  mcpNames: 100,
  nameCharacters: 100,
} as const;
const saltBytes = 16;

/**
 * A pool of random bytes for salts, because generating the bytes of each salt separately costs
 * more. Each byte is used once.
 */
let salts = Buffer.alloc(0);

/** The evidence of a call's arguments: their shape, and a digest that cannot be guessed. */
interface ArgumentsEvidence {
  readonly args_shape: JsonValue;
  /** `hmac-sha256:<hex>` over the JCS form, keyed with this event's own salt. */
  readonly args_digest: string;
  /** The digest of the stored arguments; undefined if none were stored. */
  readonly args_kept_digest: string | undefined;
  /**
   * Shape of the members of an MCP message other than its arguments, if present; `mcp_digest` is
   * their digest.
   */
  readonly mcp_shape: JsonValue | undefined;
  readonly mcp_digest: string | undefined;
}

/** Arguments as evidence: the part in the event, and the encrypted part stored separately. */
export interface ReducedArguments {
  readonly evidence: ArgumentsEvidence;
  /** Base64. */
  readonly salt: string;
  /** Redacted arguments, if the tenant stores them. */
  readonly kept: JsonObject | undefined;
}

/**
 * Reduces arguments to evidence. The salt is stored separately and encrypted. With the salt, the
 * digest proves the arguments. Without the salt, they cannot be guessed, so deleting the salt
 * erases them.
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

/** The digest of arguments under their event's salt. */
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

/**
 * Returns names and types without values: `{amount: 'number', to: ['string']}`; bounded in depth
 * and width.
 */
function shapeOf(value: JsonValue | undefined, depth: number, budget: Budget): JsonValue {
  if (value === null || value === undefined) return 'null';
  if (typeof value !== 'object') return typeof value;
  if (depth >= shapeLimits.depth) return Array.isArray(value) ? 'array' : 'object';
  if (!isJsonObject(value)) return value.length === 0 ? [] : [shapeOf(value[0], depth + 1, budget)];
  const shape: Record<string, JsonValue> = {};
  // Sorted here, so that canonical serialisation need not sort.
  for (const name of Object.keys(value).slice(0, shapeLimits.members).sort()) {
    if (budget.left <= 0) break;
    budget.left -= 1;
    shape[recordableName(name)] = shapeOf(value[name], depth + 1, budget);
  }
  return shape;
}

/**
 * Makes a name that the agent chose recordable. An invalid name would make the control plane refuse
 * the whole event.
 */
function recordableName(name: string): string {
  if (name === '__proto__') return '(__proto__)';
  return recordableText(name.slice(0, shapeLimits.nameCharacters));
}
