import type { JsonObject, JsonValue } from '../base/json.ts';

/** A lower or upper bound. `undefined` limit: unbounded. */
interface Bound {
  readonly limit: number | undefined;
  readonly exclusive: boolean;
}

const lowerBounds = new Set(['minItems', 'minLength', 'minProperties', 'minimum']);
const upperBounds = new Set(['maxItems', 'maxLength', 'maxProperties', 'maximum']);
const exclusiveOf: Readonly<Record<string, string>> = {
  minimum: 'exclusiveMinimum',
  maximum: 'exclusiveMaximum',
};

/**
 * True for keywords that `isTighter` compares. Exclusive bounds are compared together with
 * `minimum` and `maximum`.
 */
export function isBound(keyword: string): boolean {
  return lowerBounds.has(keyword) || upperBounds.has(keyword) || keyword === 'multipleOf';
}

/** True if the bound of `after` provably accepts no more than that of `before`. */
export function isTighter(keyword: string, before: JsonObject, after: JsonObject): boolean {
  if (keyword === 'multipleOf') return isMultiple(before.multipleOf, after.multipleOf);
  const sign = lowerBounds.has(keyword) ? 1 : -1;
  const old = readBound(keyword, before, sign);
  const now = readBound(keyword, after, sign);
  if (old === undefined || now === undefined) return false;
  if (old.limit === undefined) return true;
  if (now.limit === undefined) return false;
  if (now.limit !== old.limit) return now.limit > old.limit;
  return now.exclusive || !old.exclusive;
}

/**
 * The stricter of a bound and its exclusive form, as a lower bound (upper bounds are negated).
 * Undefined if either is not a number (draft 4 writes exclusive bounds as booleans).
 */
function readBound(keyword: string, schema: JsonObject, sign: 1 | -1): Bound | undefined {
  const plain = schema[keyword];
  const exclusiveName = exclusiveOf[keyword];
  const strict = exclusiveName === undefined ? undefined : schema[exclusiveName];
  if (!isLimit(plain) || !isLimit(strict)) return undefined;
  const [a, b] = [plain, strict].map((limit) => (limit === undefined ? undefined : limit * sign));
  if (b !== undefined && (a === undefined || b >= a)) return { limit: b, exclusive: true };
  return { limit: a, exclusive: false };
}

function isLimit(value: JsonValue | undefined): value is number | undefined {
  return value === undefined || typeof value === 'number';
}

function isMultiple(old: JsonValue | undefined, now: JsonValue | undefined): boolean {
  if (typeof now !== 'number') return false;
  if (old === undefined) return true;
  return Number.isSafeInteger(old) && Number.isSafeInteger(now) && now % Number(old) === 0;
}
