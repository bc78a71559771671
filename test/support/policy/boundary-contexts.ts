import type { JsonObject, JsonValue } from '../../../shared/base/json.ts';
import type { PolicyDefinition } from '../../../shared/policy/language/definition.ts';

type Value = JsonValue | undefined;

const combinationsMax = 40_000;

/**
 * Returns contexts with all values at which a small policy could change its decision, for every
 * path in the policy: the values with which it compares, slightly larger and smaller ones, the same
 * values as text, in lists and joined, and values of every other kind. Uses no code of the product.
 */
export function boundaryContexts({ rules, applies_to }: PolicyDefinition): readonly JsonObject[] {
  const conditions = rules.flatMap(({ when }) => ('all' in when ? when.all : when.any));
  const literals = new Set<JsonValue>([
    ...(applies_to?.tools ?? []),
    ...(applies_to?.agents ?? []),
  ]);
  const paths = new Set<string>();
  for (const { path, operator, value } of conditions) {
    paths.add(path);
    if (isRef(value)) paths.add(value.$ref);
    else if (operator === 'matches') for (const text of found(String(value))) literals.add(text);
    else for (const one of Array.isArray(value) ? [value, ...value] : [value]) literals.add(one);
  }
  const values = aroundAll([...literals]);
  let contexts: JsonObject[] = [{}];
  for (const path of [...paths].sort()) {
    const fitting = valuesAt(path, values);
    const room = Math.max(1, Math.floor(combinationsMax / contexts.length));
    contexts = contexts.flatMap((context) =>
      fitting.slice(0, room).map((value) => withValue(context, path, value)),
    );
  }
  return contexts.map((context) => ({
    environment: 'prod',
    ...context,
    tool: { name: 'pay.refund', ...(context.tool as JsonObject | undefined) },
  }));
}

const words: Readonly<Record<string, readonly Value[]>> = {
  environment: ['dev', 'staging', 'prod'],
  'tool.risk_tier': ['low', 'medium', 'high', 'critical', undefined],
};

function valuesAt(path: string, values: readonly Value[]): readonly Value[] {
  if (words[path] !== undefined) return words[path];
  if (path === 'args') return [{}, undefined];
  const isText = /^(tool|agent|user|tenant)\./.test(path);
  if (!isText) return values;
  return values.filter((value) => typeof value === 'string');
}

function aroundAll(literals: readonly JsonValue[]): readonly Value[] {
  const numbers = literals.map(Number).filter((value) => Number.isFinite(value));
  const sorted = [...numbers].sort((one, other) => one - other);
  const middles = sorted.map((value, at) => (value + (sorted[at + 1] ?? value + 2)) / 2);
  const near = [...sorted, ...middles].flatMap((value) => [value, value + 1, value - 1]);
  const texts = literals.filter((value) => typeof value === 'string');
  const joined = texts.flatMap((one) => texts.map((other) => one + other));
  const all: Value[] = [
    ...literals,
    ...near,
    ...near.map(String),
    undefined,
    ...joined,
    ...literals.map((value) => [value]),
    [...literals],
    'other',
    '1e3x',
    true,
    false,
    null,
    0,
    1,
    2,
    {},
    [],
  ];
  return [...new Map(all.map((value) => [JSON.stringify(value) ?? 'missing', value])).values()];
}

/**
 * Returns texts that match this pattern, from a manually written list for the patterns in the
 * tests.
 */
function found(pattern: string): readonly string[] {
  const known = ['5', 'c', 'ceo', 'a@acme.com', 'ceo@acme.com', 'a@evil.com', 'ab-12', '60', 'ab'];
  return known.filter((text) => new RegExp(pattern).test(text));
}

function withValue(context: JsonObject, path: string, value: Value): JsonObject {
  const [first = '', ...rest] = path.split('.');
  if (value === undefined) return context;
  if (rest.length === 0) return { ...context, [first]: value };
  const inner = context[first];
  const at = typeof inner === 'object' && inner !== null && !Array.isArray(inner) ? inner : {};
  return { ...context, [first]: withValue(at as JsonObject, rest.join('.'), value) };
}

function isRef(value: JsonValue): value is { readonly $ref: string } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
