import { z } from 'zod';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';

type Step = string | number;
export type Place = readonly Step[];

interface Schema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

const depthMax = 6;

/**
 * Returns the path of every value that the schema of an operation's body declares, including
 * optional values.
 */
export function placesOf({ body }: AnyOperation): readonly Place[] {
  if (body === undefined) return [];
  const root = z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' }) as Schema;
  const places = new Map<string, Place>();
  walk(root, [], (place) => places.set(place.join('.'), place), root);
  return [...places.values()];
}

function walk(schema: Schema, at: Place, note: (place: Place) => void, root: Schema): void {
  if (at.length > depthMax) return;
  if (at.length > 0) note(at);
  const { $ref, properties = {}, additionalProperties: more, items } = schema;
  const named = $ref?.startsWith('#/$defs/') ? root.$defs?.[$ref.slice(8)] : undefined;
  if (named !== undefined) walk(named, at, note, root);
  for (const each of [schema.anyOf, schema.oneOf, schema.allOf]) {
    for (const branch of each ?? []) walk(branch, at, note, root);
  }
  for (const [name, property] of Object.entries(properties)) {
    walk(property, [...at, name], note, root);
  }
  if (typeof more === 'object') walk(more, [...at, 'any'], note, root);
  if (items !== undefined) walk(items, [...at, 0], note, root);
}

/** Returns a copy of `example` with `value` at the path `place`. Missing parents are created. */
export function withValue(example: unknown, place: Place, value: unknown): unknown {
  const [step, ...rest] = place;
  if (step === undefined) return value;
  if (typeof step === 'number') {
    const list = Array.isArray(example) ? [...example] : [];
    list[step] = withValue(list[step], rest, value);
    return list;
  }
  const members = typeof example === 'object' && example !== null ? example : {};
  const inner = (members as Record<string, unknown>)[step];
  return { ...members, [step]: withValue(inner, rest, value) };
}
