import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { schemaMapKeywords } from './schema-keywords.ts';

/** The keyword that stands beside every reference and counts how often it is followed. */
export const stepKeyword = 'x-sallyport-step';

/** Keywords whose values are data. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples']);
const references = ['$ref', '$dynamicRef', '$recursiveRef'];

/**
 * The schema with a counter beside every reference. A schema of a few lines can refer to itself so
 * that checking one call takes longer than anybody lives; all else is bounded by the sizes of schema
 * and arguments. Throws where a reference leads to what is data to everybody else, and would not
 * be counted.
 */
export function countReferences(schema: JsonObject): JsonObject {
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

/** A property may have such a name, and is a schema then. */
function leadsToData(ref: string): boolean {
  const [, pointer = ''] = ref.split('#', 2);
  return decodeURIComponent(pointer)
    .split('/')
    .some(
      (segment, at, all) => dataKeywords.has(segment) && !schemaMapKeywords.has(all[at - 1] ?? ''),
    );
}
