import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { riskTiers } from '../vocabulary/action.ts';
import { type NormalisedManifest, riskTierDefault } from './manifest.ts';
import {
  schemaKeywords,
  schemaListKeywords,
  schemaMapKeywords,
  setKeywords,
} from './schema-keywords.ts';

/**
 * Reads one member: returns its normal form, or undefined for the default; throws an error that
 * names the field.
 */
type Reader = (value: JsonValue, field: string) => JsonValue | undefined;

const nameLengthMax = 256;

const readers: Readonly<Record<string, Reader>> = {
  name: readName,
  title: readText,
  description: readText,
  serverOrigin: readText,
  protocol: readText,
  publisherIdentity: readText,
  publisherVerified: readFlag,
  inputSchema: readSchema,
  outputSchema: readSchema,
  annotations: readObject,
  oauthScopes: readSet,
  sideEffectProfile: readSet,
  riskTier: readRiskTier,
  executionCapability: readLevel,
  sensitiveDataExposure: readLevel,
  // Icons and transport metadata can change although the tool does not.
  icons: () => undefined,
  _meta: () => undefined,
};

/**
 * Normalises a submitted manifest. Only `name` is required; a null member counts as absent. Throws
 * `args.schema_invalid`, naming the field, if the manifest is invalid.
 */
export function parseManifest(input: unknown): NormalisedManifest {
  if (!isJsonObject(input)) throw invalid('manifest', 'must be an object');
  if (!Object.hasOwn(input, 'name') || input.name === undefined)
    throw invalid('manifest.name', 'is required');
  canonicalJson(input); // refuses values that have no canonical form
  const members: [string, JsonValue][] = [];
  for (const [field, value] of Object.entries(input)) {
    if (value === undefined || (value === null && field !== 'name')) continue;
    const reader = Object.hasOwn(readers, field) ? readers[field] : undefined;
    const normal = reader === undefined ? value : reader(value, `manifest.${field}`);
    if (normal !== undefined) members.push([field, normal]);
  }
  // The readers ensured that every known member has the type in NormalisedManifest.
  return Object.fromEntries(members) as unknown as NormalisedManifest;
}

/** A JSON Schema with sorted sets and without members that have no effect. */
export function normaliseSchema(schema: JsonObject): JsonObject {
  const members: [string, JsonValue][] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined) continue;
    const normal = normaliseKeyword(keyword, value);
    if (!isRedundantMember(keyword, normal)) members.push([keyword, normal]);
  }
  return Object.fromEntries(members);
}

function normaliseKeyword(keyword: string, value: JsonValue): JsonValue {
  if (setKeywords.has(keyword) && Array.isArray(value)) return normaliseSet(keyword, value);
  if (schemaListKeywords.has(keyword) && Array.isArray(value)) return value.map(normaliseNested);
  if (!isJsonObject(value)) return value;
  if (schemaKeywords.has(keyword)) return normaliseSchema(value);
  if (!schemaMapKeywords.has(keyword)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, nested]) => [name, normaliseNested(nested ?? null)]),
  );
}

function normaliseNested(value: JsonValue): JsonValue {
  return isJsonObject(value) ? normaliseSchema(value) : value;
}

function normaliseSet(keyword: string, items: readonly JsonValue[]): JsonValue {
  const sorted = [...new Map(items.map((item) => [canonicalJson(item), item]))]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([, item]) => item);
  return keyword === 'type' && sorted.length === 1 ? (sorted[0] ?? null) : sorted;
}

function isRedundantMember(keyword: string, value: JsonValue): boolean {
  if (keyword === 'uniqueItems') return value === false;
  if (keyword === 'required') return Array.isArray(value) && value.length === 0;
  return keyword === 'properties' && isJsonObject(value) && Object.keys(value).length === 0;
}

function readName(value: JsonValue, field: string): JsonValue {
  if (typeof value !== 'string' || value === '') throw invalid(field, 'must be a non-empty string');
  if (value.length > nameLengthMax || /[\p{Cc}\p{Zl}\p{Zp}*]/u.test(value)) {
    throw invalid(
      field,
      `must be at most ${nameLengthMax} characters, without control characters and *`,
    );
  }
  return value;
}

function readText(value: JsonValue, field: string): JsonValue | undefined {
  if (typeof value !== 'string') throw invalid(field, 'must be a string');
  return value === '' ? undefined : value;
}

function readLevel(value: JsonValue, field: string): JsonValue | undefined {
  return value === 'none' ? undefined : readText(value, field);
}

function readFlag(value: JsonValue, field: string): JsonValue | undefined {
  if (typeof value !== 'boolean') throw invalid(field, 'must be true or false');
  return value || undefined;
}

function readObject(value: JsonValue, field: string): JsonObject | undefined {
  if (!isJsonObject(value)) throw invalid(field, 'must be an object');
  return Object.keys(value).length === 0 ? undefined : value;
}

function readSchema(value: JsonValue, field: string): JsonObject | undefined {
  if (!isJsonObject(value)) throw invalid(field, 'must be an object (a JSON Schema)');
  return readObject(normaliseSchema(value), field);
}

function readSet(value: JsonValue, field: string): JsonValue | undefined {
  if (!Array.isArray(value)) throw invalid(field, 'must be an array of strings');
  value.forEach((item, index) => {
    if (typeof item !== 'string' || item === '') {
      throw invalid(`${field}[${index}]`, 'must be a non-empty string');
    }
  });
  return value.length === 0 ? undefined : [...new Set(value)].sort();
}

function readRiskTier(value: JsonValue, field: string): JsonValue | undefined {
  if (!riskTiers.some((tier) => tier === value)) {
    throw invalid(field, `must be one of ${riskTiers.join(', ')}`);
  }
  return value === riskTierDefault ? undefined : value;
}

function invalid(field: string, problem: string): GatewayError {
  return new GatewayError('args.schema_invalid', { message: `${field} ${problem}.` });
}
