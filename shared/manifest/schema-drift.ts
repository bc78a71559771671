import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import { changedMembers, memberOf, pointerStep } from './members.ts';
import { isBound, isTighter } from './schema-bounds.ts';

/**
 * One change in a schema: the new schema accepts less, may accept more, or has different
 * descriptions. An undecidable change counts as broadened.
 */
export interface SchemaChange {
  readonly kind: 'narrowed' | 'broadened' | 'described';
  /** JSON pointer (RFC 6901). */
  readonly path: string;
  readonly message: string;
}

type Schema = JsonObject | boolean;

interface Comparison {
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly path: string;
}

/** Keywords that do not affect validation, but whose text models and people read. */
const describingKeywords = new Set(['$comment', 'description', 'examples', 'title']);

/** Each keyword on the left is compared together with the keyword on the right. */
const jointly: ReadonlyMap<string, string> = new Map([
  ['const', 'enum'],
  ['exclusiveMaximum', 'maximum'],
  ['exclusiveMinimum', 'minimum'],
]);

/**
 * Lists every change from one schema to another. If all changes are `narrowed`, the old schema
 * accepted everything that the new one accepts.
 */
export function compareSchemas(
  before: Schema,
  after: Schema,
  path: string,
): readonly SchemaChange[] {
  if (before === after || canonicalJson(before) === canonicalJson(after)) return [];
  if (after === false) return [narrowed(path, 'no value is accepted any longer')];
  if (before === false) return [broadened(path, 'refused values are now accepted')];
  const comparison = {
    before: before === true ? {} : before,
    after: after === true ? {} : after,
    path,
  };
  const changes = changedKeywords(comparison).flatMap((keyword) => judge(keyword, comparison));
  return changes.length > 0
    ? changes
    : [broadened(path, 'the schema changed in a way that cannot be compared')];
}

function changedKeywords({ before, after }: Comparison): readonly string[] {
  const changed = changedMembers(before, after);
  return [...new Set(changed.map((keyword) => jointly.get(keyword) ?? keyword))].sort();
}

function judge(keyword: string, comparison: Comparison): readonly SchemaChange[] {
  const path = `${comparison.path}${pointerStep(keyword)}`;
  if (describingKeywords.has(keyword)) return [described(path, `${keyword} changed`)];
  switch (keyword) {
    case 'properties':
      return judgeProperties(comparison);
    case 'required':
      return judgeRequired(path, comparison);
    case 'type':
      return judgeSets(path, typesOf(comparison.before), typesOf(comparison.after));
    case 'enum':
      return judgeValues(path, comparison);
    case 'items':
    case 'additionalProperties':
      return judgeNested(keyword, comparison);
    case 'pattern':
    case 'format':
      return judgeOpaque(keyword, path, comparison);
    case 'uniqueItems':
      return [
        comparison.after.uniqueItems === true
          ? narrowed(path, 'items must differ')
          : broadened(path, 'items may repeat'),
      ];
    default:
      return [judgeOther(keyword, path, comparison)];
  }
}

function judgeOther(keyword: string, path: string, { before, after }: Comparison): SchemaChange {
  if (!isBound(keyword)) return broadened(path, `${keyword} changed`);
  return isTighter(keyword, before, after)
    ? narrowed(path, `${keyword} is tighter`)
    : broadened(path, `${keyword} is less strict, or cannot be compared`);
}

/**
 * A newly declared property counts as broadened even if the old schema accepted any name, because
 * the declaration asks the model to send it.
 */
function judgeProperties({ before, after, path }: Comparison): readonly SchemaChange[] {
  const old = objectOf(before.properties);
  const now = objectOf(after.properties);
  if (old === undefined || now === undefined) {
    return [broadened(`${path}/properties`, 'properties cannot be compared')];
  }
  const patterns = before.patternProperties !== undefined || after.patternProperties !== undefined;
  return changedMembers(old, now).flatMap((name) => {
    const at = `${path}/properties${pointerStep(name)}`;
    const was = ownSchema(old, name);
    const is = ownSchema(now, name);
    if (was === 'unreadable' || is === 'unreadable') {
      return [broadened(at, 'the schema is invalid')];
    }
    if (is === undefined) {
      return after.additionalProperties === false && !patterns
        ? [narrowed(at, `the property ${name} is gone`)]
        : [broadened(at, `the property ${name} is no longer constrained`)];
    }
    if (was !== undefined) return compareSchemas(was, is, at);
    return is === false
      ? [narrowed(at, `the property ${name} is refused`)]
      : [broadened(at, `the property ${name} is new`)];
  });
}

/** A new required name counts as narrowed only if the property is declared. */
function judgeRequired(path: string, { before, after }: Comparison): readonly SchemaChange[] {
  const old = namesOf(before.required);
  const now = namesOf(after.required);
  if (old === undefined || now === undefined) return [broadened(path, 'required is invalid')];
  const declared = objectOf(after.properties) ?? {};
  const freed = [...old].filter((name) => !now.has(name));
  const asked = [...now].filter((name) => !old.has(name));
  return [
    ...freed.map((name) => broadened(path, `${name} is no longer required`)),
    ...asked.map((name) =>
      Object.hasOwn(declared, name)
        ? narrowed(path, `${name} is now required`)
        : broadened(path, `${name} is required but not declared`),
    ),
  ];
}

/**
 * Compares `enum` and `const`. New values are new text for the model, so they count as a change
 * even if the old schema accepted any value.
 */
function judgeValues(path: string, { before, after }: Comparison): readonly SchemaChange[] {
  const old = valuesOf(before);
  const changes = judgeSets(path, old, valuesOf(after));
  return old === undefined && changes.every(({ kind }) => kind === 'narrowed')
    ? [...changes, described(path, 'values are now suggested')]
    : changes;
}

function judgeNested(
  keyword: 'items' | 'additionalProperties',
  { before, after, path }: Comparison,
): readonly SchemaChange[] {
  const at = `${path}/${keyword}`;
  const old = schemaOf(before[keyword]);
  const now = schemaOf(after[keyword]);
  // `unevaluated*` exempts members that this keyword evaluates, so any change of the keyword can
  // admit more members.
  const counts = hasUnevaluated(before) || hasUnevaluated(after);
  if (old === 'unreadable' || now === 'unreadable' || counts) {
    return [broadened(at, `${keyword} changed`)];
  }
  return compareSchemas(old, now, at);
}

function hasUnevaluated(schema: JsonObject): boolean {
  return schema.unevaluatedItems !== undefined || schema.unevaluatedProperties !== undefined;
}

/** Patterns and formats cannot be compared, so only the addition of one counts as narrowed. */
function judgeOpaque(
  keyword: 'pattern' | 'format',
  path: string,
  { before, after }: Comparison,
): readonly SchemaChange[] {
  if (before[keyword] !== undefined) {
    return [broadened(path, `${keyword} ${after[keyword] === undefined ? 'is gone' : 'changed'}`)];
  }
  const changes = [narrowed(path, `${keyword} was added`)];
  return keyword === 'pattern' ? [...changes, described(path, 'a pattern is now shown')] : changes;
}

/** A set of accepted values; undefined accepts everything. */
type Accepted = ReadonlySet<string> | 'unreadable' | undefined;

function judgeSets(path: string, old: Accepted, now: Accepted): readonly SchemaChange[] {
  if (old === 'unreadable' || now === 'unreadable') return [broadened(path, 'is invalid')];
  if (now === undefined) return [broadened(path, 'any value is accepted')];
  if (old === undefined) return [narrowed(path, `only ${[...now].join(', ')} accepted`)];
  const gained = [...now].filter((member) => !old.has(member));
  const lost = [...old].filter((member) => !now.has(member));
  if (gained.length > 0) return [broadened(path, `newly accepted: ${gained.join(', ')}`)];
  return lost.length > 0 ? [narrowed(path, `no longer accepted: ${lost.join(', ')}`)] : [];
}

/** The values that `enum` and `const` together allow. */
function valuesOf(schema: JsonObject): Accepted {
  if (schema.enum !== undefined && !Array.isArray(schema.enum)) return 'unreadable';
  const listed = schema.enum && new Set(schema.enum.map(canonicalJson));
  if (schema.const === undefined) return listed;
  const only = canonicalJson(schema.const);
  return listed === undefined || listed.has(only) ? new Set([only]) : new Set();
}

/** The types that a schema accepts; `integer` is part of `number`. */
function typesOf({ type }: JsonObject): Accepted {
  if (type === undefined) return undefined;
  const listed = namesOf(typeof type === 'string' ? [type] : type);
  if (listed === undefined) return 'unreadable';
  return listed.has('number') ? new Set([...listed, 'integer']) : listed;
}

function namesOf(value: JsonValue | undefined): ReadonlySet<string> | undefined {
  if (value === undefined) return new Set();
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string')) return undefined;
  return new Set(value);
}

function schemaOf(value: JsonValue | undefined): Schema | 'unreadable' {
  if (value === undefined) return true;
  return typeof value === 'boolean' || isJsonObject(value) ? value : 'unreadable';
}

function ownSchema(schemas: JsonObject, name: string): Schema | 'unreadable' | undefined {
  const schema = memberOf(schemas, name);
  return schema === undefined ? undefined : schemaOf(schema);
}

function objectOf(value: JsonValue | undefined): JsonObject | undefined {
  if (value === undefined) return {};
  return isJsonObject(value) ? value : undefined;
}

function described(path: string, message: string): SchemaChange {
  return { kind: 'described', path, message };
}

function narrowed(path: string, message: string): SchemaChange {
  return { kind: 'narrowed', path, message };
}

function broadened(path: string, message: string): SchemaChange {
  return { kind: 'broadened', path, message };
}
