import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import type { Services } from '../../../control-plane/core/services.ts';
import { allRoutes } from '../../../control-plane/routes.ts';
import { openApiDocument } from '../../../shared/contract/base/openapi.ts';

/** Checks every field of all request bodies and parameters, including those of new operations. */

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxItems?: number;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema | boolean>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}
interface Media {
  readonly schema?: Schema;
  readonly example?: unknown;
}
interface DocumentOperation {
  readonly operationId: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, Media>> }>
  >;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

// The routes only keep references to their services, which are not called.
const routes = allRoutes({} as Services);
const document = openApiDocument(routes.map(({ operation }) => operation)) as unknown as Document;
const { schemas } = document.components;
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));

/** Members of these objects are free-form: policies judge them, and no schema validates them. */
const freeObjects = new Set([
  'args',
  'modified_args',
  'mcp',
  'resource_constraints',
  'context',
  'data',
  'ToolManifest',
]);

const nameOf = (ref: string) => ref.replace('#/components/schemas/', '');

/**
 * Yields the schema and all schemas within it, each with its path. A recursive schema is entered once per
 * path.
 */
function* within(
  schema: Schema,
  at: string,
  seen: ReadonlySet<string> = new Set(),
): Generator<readonly [string, Schema]> {
  const { $ref, properties = {}, additionalProperties: more, items } = schema;
  if ($ref !== undefined) {
    const name = nameOf($ref);
    const target = schemas[name];
    if (target === undefined) throw new Error(`${at}: no schema ${name}`);
    if (!seen.has(name)) yield* within(target, `${at}<${name}>`, new Set([...seen, name]));
    return;
  }
  yield [at, schema];
  for (const [name, property] of Object.entries(properties)) {
    if (typeof property === 'object') yield* within(property, `${at}.${name}`, seen);
  }
  if (typeof more === 'object') yield* within(more, `${at}.*`, seen);
  if (items !== undefined) yield* within(items, `${at}[]`, seen);
  for (const branch of [schema.anyOf, schema.oneOf, schema.allOf].flatMap((list) => list ?? [])) {
    // If a schema has a type, its branches only add constraints.
    if (schema.type === undefined) yield* within(branch, at, seen);
  }
}

const isFree = (at: string) =>
  freeObjects.has(/(\w+)>?$/.exec(at.replace(/(\.\*)+$/, ''))?.[1] ?? '');

function problemOf(at: string, schema: Schema): string | undefined {
  const { type } = schema;
  const isGiven = schema.enum !== undefined || schema.const !== undefined;
  if (isFree(at) || at.includes('<ToolManifest>')) return undefined;
  if (type === undefined) {
    const isChoice = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    return isGiven || isChoice !== undefined ? undefined : 'accepts anything';
  }
  if (type === 'object' && schema.additionalProperties === undefined) return 'is open';
  if (type === 'object' && schema.additionalProperties === true) return 'is open';
  if (type === 'array' && schema.maxItems === undefined) return 'has no maxItems';
  if (
    type === 'string' &&
    !isGiven &&
    schema.maxLength === undefined &&
    !isBounded(schema.pattern)
  ) {
    return 'has no maxLength';
  }
  if (type !== 'integer' && type !== 'number') return undefined;
  return schema.minimum === undefined || schema.maximum === undefined ? 'is unbounded' : undefined;
}

/**
 * Reports whether the pattern limits the length, which it does if it is anchored and has no open-ended
 * quantifier.
 */
function isBounded(pattern: string | undefined): boolean {
  return (
    pattern !== undefined &&
    /^\^.*\$$/.test(pattern) &&
    !/[*+]|\{\d+,\}/.test(pattern.replaceAll(/\[[^\]]*\]|\\./g, 'x'))
  );
}

const requests = operations.flatMap(({ operationId, parameters = [], requestBody }) => [
  ...parameters.map(
    ({ name, in: place, schema }) => [`${operationId} ${place}:${name}`, schema] as const,
  ),
  ...Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
    schema === undefined ? [] : [[`${operationId} body`, schema] as const],
  ),
]);

describe('the request schema', () => {
  it.each(requests)('of the part "%s" permits only known, bounded fields', (at, schema) => {
    const problems = [...within(schema, at)].flatMap(([place, one]) => problemOf(place, one) ?? []);
    const where = [...within(schema, at)].filter(([place, one]) => problemOf(place, one));
    expect(where.map(([place]) => place).map((place, n) => `${place} ${problems[n]}`)).toEqual([]);
  });

  it.each(requests)(
    'of the part "%s" has no pattern that regular expression engines interpret differently',
    (at, schema) => {
      const patterns = [...within(schema, at)].flatMap(([, { pattern }]) => pattern ?? []);
      expect(patterns.filter((pattern) => /\\[dDwW]|\\p\{/.test(pattern))).toEqual([]);
      for (const pattern of patterns) expect(() => new RegExp(pattern, 'u')).not.toThrow();
    },
  );

  it.each(requests)('of the part "%s" has a pattern for each id', (at, schema) => {
    const ids = [...within(schema, at)].filter(
      ([place, { type }]) => /(^|[._:])id$|_id$/.test(place) && type === 'string',
    );
    expect(ids.filter(([, { pattern }]) => pattern === undefined).map(([place]) => place)).toEqual(
      [],
    );
  });
});

describe('the schemas of the OpenAPI document', () => {
  it('have names, so that generated clients have types', () => {
    for (const name of ['Approval', 'Policy', 'PolicyDefinition', 'Agent', 'EvidenceEvent']) {
      expect(schemas).toHaveProperty(name);
    }
    const anonymous = operations.flatMap(({ operationId, requestBody, responses }) =>
      [requestBody, ...Object.values(responses)].flatMap((part) =>
        Object.values(part?.content ?? {})
          .filter(({ schema }) => schema?.type === 'object')
          .map(() => operationId),
      ),
    );
    expect(anonymous).toEqual([]);
  });

  it('compile, and accept the examples', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: 'document', components: document.components });
    const qualified = (schema: Schema) =>
      JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"document#/')) as Schema;
    for (const { operationId, requestBody, responses } of operations) {
      for (const part of [requestBody, ...Object.values(responses)]) {
        for (const [type, { schema, example }] of Object.entries(part?.content ?? {})) {
          if (schema === undefined || example === undefined || !type.endsWith('json')) continue;
          expect(
            ajv.validate(qualified(schema), example),
            `${operationId}: ${ajv.errorsText()}`,
          ).toBe(true);
        }
      }
    }
  });

  it('are all referenced', () => {
    const used = new Set(
      JSON.stringify(document)
        .match(/#\/components\/schemas\/\w+/g)
        ?.map(nameOf),
    );
    expect(Object.keys(schemas).filter((name) => !used.has(name))).toEqual([]);
  });
});
