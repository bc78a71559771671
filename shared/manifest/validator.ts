import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import { schemaMapKeywords } from './schema-keywords.ts';

/** Returns the problem with arguments, or undefined if they match the schema. */
export type ArgsValidator = (args: JsonObject) => string | undefined;

/** MCP's default JSON Schema dialect is 2020-12. */
const dialects = [
  { form: /^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/, Ajv: Ajv2020 },
  { form: /^https?:\/\/json-schema\.org\/draft\/2019-09\/schema#?$/, Ajv: Ajv2019 },
  { form: /^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/, Ajv },
] as const;

const cacheMax = 2_000;
const cache = new Map<string, ArgsValidator>();

/**
 * The validator of one `inputSchema`, compiled at its first use and cached. `format` has no effect,
 * references are limited to the schema itself, and patterns run in linear time. The validator never
 * modifies arguments. If a schema does not compile, every call is refused.
 */
export function argsValidator(schema: JsonObject): ArgsValidator {
  const key = sha256(canonicalJson(schema));
  const known = cache.get(key);
  if (known !== undefined) return known;
  let compiled: ArgsValidator | undefined;
  const validator: ArgsValidator = (args) => {
    compiled ??= compile(schema);
    return compiled(args);
  };
  if (cache.size >= cacheMax) cache.clear();
  cache.set(key, validator);
  return validator;
}

/** Returns the reason why a schema does not compile, or undefined. */
export function schemaProblem(schema: JsonObject): string | undefined {
  const built = build(schema);
  return typeof built === 'string' ? built : undefined;
}

function compile(schema: JsonObject): ArgsValidator {
  const built = build(schema);
  if (typeof built === 'string') {
    return () => `The tool's approved inputSchema is invalid, so every call is refused: ${built}`;
  }
  return (args) => judge(built, args);
}

/** Limit of references followed in one check; each takes well under a microsecond. */
const stepsMax = 1_000_000;

interface Built {
  readonly validate: ValidateFunction;
  /** Number of references followed. */
  readonly steps: { count: number };
}

function judge({ validate, steps }: Built, args: JsonObject): string | undefined {
  steps.count = 0;
  try {
    return validate(args) === true ? undefined : explain(validate.errors?.[0]);
  } catch {
    // The schema follows references endlessly, or too often.
    return 'args cannot be checked: the inputSchema follows too many references';
  }
}

const regExp = (pattern: string) => {
  const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
  return { test: (text: string) => compiled.matcher(text).find() };
};
// Ajv reads this only for standalone code, which is never generated here.
regExp.code = 're2';

const options: Options = {
  strict: false,
  validateFormats: false,
  // Considers own members only, never inherited ones such as `constructor`.
  ownProperties: true,
  logger: false,
  // 0.29 counts as a multiple of 0.01, despite binary fractions.
  multipleOfPrecision: 9,
  validateSchema: false,
  meta: false,
  code: { regExp },
};

/**
 * Compiles a schema with an Ajv instance of its own, so that schemas cannot reference each other's
 * ids.
 */
function build(schema: JsonObject): Built | string {
  const dialect = dialectOf(schema);
  // `$async` would make the validator return a promise.
  if (schema.$async !== undefined) return '$async is not supported';
  if (dialect === undefined) return `$schema ${JSON.stringify(schema.$schema)} is not supported`;
  try {
    const { $schema: _, ...body } = schema;
    if (!wellFormed(dialect, body)) return 'it is not a valid JSON Schema';
    const ajv = new dialect(options);
    ajv.removeKeyword('uniqueItems');
    ajv.addKeyword({ keyword: 'uniqueItems', type: 'array', validate: validateUnique });
    const steps = { count: 0 };
    const validate = () => {
      steps.count += 1;
      if (steps.count > stepsMax) throw new Error('too many references');
      return true;
    };
    ajv.addKeyword({ keyword: stepKeyword, before: '$ref', validate });
    return { validate: ajv.compile(countReferences(body)), steps };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function dialectOf({ $schema }: JsonObject) {
  if ($schema === undefined) return Ajv2020;
  return dialects.find(({ form }) => typeof $schema === 'string' && form.test($schema))?.Ajv;
}

type Dialect = NonNullable<ReturnType<typeof dialectOf>>;
const metaValidators = new Map<Dialect, InstanceType<Dialect>>();

function wellFormed(dialect: Dialect, schema: JsonObject): boolean {
  const meta = metaValidators.get(dialect) ?? new dialect({ strict: false, logger: false });
  metaValidators.set(dialect, meta);
  return meta.validateSchema(schema) === true;
}

/**
 * Replaces Ajv's check of `uniqueItems`, which is quadratic and takes minutes for a body of many
 * small items.
 */
function validateUnique(isWanted: boolean, items: readonly JsonValue[]): boolean {
  return !isWanted || new Set(items.map(canonicalJson)).size === items.length;
}

function explain(error: ErrorObject | undefined): string {
  if (error === undefined) return 'args do not match the inputSchema';
  const where = `args${error.instancePath.split('/').slice(1).map(member).join('')}`;
  const { params } = error;
  switch (error.keyword) {
    case 'additionalProperties':
      return `${where} has a member that is not allowed: ${JSON.stringify(params.additionalProperty)}`;
    case 'enum':
      return `${where} must be one of ${JSON.stringify(params.allowedValues).slice(0, 500)}`;
    case 'const':
      return `${where} must be ${JSON.stringify(params.allowedValue).slice(0, 500)}`;
    case 'uniqueItems':
      return `${where} must not hold the same item twice`;
    default:
      return `${where} ${error.message ?? 'does not match the inputSchema'}`;
  }
}

/** Formats one step of a JSON pointer as in code: `.name` or `[0]`. */
function member(step: string): string {
  const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
  return /^\d+$/.test(name) ? `[${name}]` : `.${name}`;
}

/** The keyword added next to every reference to count how often it is followed. */
const stepKeyword = 'x-sallyport-step';

/** Keywords whose values are data, not schemas. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples']);
const references = ['$ref', '$dynamicRef', '$recursiveRef'];

/**
 * Adds a counter next to every reference. A short schema can refer to itself so that checking one
 * call takes practically for ever; all other work is bounded by the sizes of schema and arguments.
 * Throws if a reference leads into a data keyword, because references there would not be counted.
 */
function countReferences(schema: JsonObject): JsonObject {
  return counted(schema) as JsonObject;
}

function counted(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(counted);
  if (!isJsonObject(schema)) return schema;
  const copy = mapMembers(schema, (value, name) => {
    if (dataKeywords.has(name)) return value;
    if (schemaMapKeywords.has(name) && isJsonObject(value)) return mapMembers(value, counted);
    return counted(value);
  });
  const followed = references.map((name) => schema[name]).filter((ref) => typeof ref === 'string');
  if (followed.length === 0) return copy;
  if (followed.some(leadsToData))
    throw new Error('a reference leads into const, enum, default or examples');
  return { ...copy, [stepKeyword]: true };
}

function mapMembers(
  object: JsonObject,
  change: (value: JsonValue, name: string) => JsonValue,
): JsonObject {
  const members = Object.entries(object).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, change(value, name)] as const],
  );
  return Object.fromEntries(members);
}

/**
 * True if a reference leads into a data keyword. Below `properties` and similar keywords, such a
 * name is a property, and its value is a schema.
 */
function leadsToData(ref: string): boolean {
  const [, pointer = ''] = ref.split('#', 2);
  return decodeURIComponent(pointer)
    .split('/')
    .some(
      (segment, at, all) => dataKeywords.has(segment) && !schemaMapKeywords.has(all[at - 1] ?? ''),
    );
}
