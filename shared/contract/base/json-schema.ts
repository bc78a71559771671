import { z } from 'zod';

export type Json = Record<string, unknown>;

const forms = new WeakMap<z.core.$ZodType, Json>();

/**
 * Sets the JSON Schema of a zod schema that zod cannot translate: one with a transform, a
 * refinement, or a validator outside zod. `form` must accept exactly the same values, as far as
 * JSON Schema can express this; `npm run fuzz` compares both.
 */
export function statedAs<Schema extends z.ZodType>(schema: Schema, form: Json): Schema {
  forms.set(schema, form);
  return schema;
}

/** Names a schema in the OpenAPI document and in generated clients. */
export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  z.globalRegistry.add(schema, { id });
  return schema;
}

/** The JSON Schema of a value; named schemas become references into `$defs`. */
export function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: generated }) => {
      // zod emits `readOnly` for TypeScript's readonly; in OpenAPI, `readOnly` forbids the member
      // in requests.
      delete generated.readOnly;
      const form = forms.get(zodSchema);
      if (form !== undefined) {
        for (const keyword of Object.keys(generated)) delete generated[keyword];
        Object.assign(generated, form);
      }
      if (typeof generated.pattern === 'string') {
        generated.pattern = portablePattern(generated.pattern);
      }
    },
  });
  return rest;
}

const classes: Readonly<Record<string, string>> = { d: '0-9', w: 'A-Za-z0-9_' };

/**
 * Writes `\d` and `\w` as ASCII ranges, because in some JSON Schema validators, such as Python's,
 * they match Unicode characters.
 */
function portablePattern(pattern: string): string {
  let written = '';
  let isInClass = false;
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern.charAt(at);
    if (char === '\\') {
      const range = classes[pattern.charAt(++at)];
      if (range === undefined) written += `\\${pattern.charAt(at)}`;
      else written += isInClass ? range : `[${range}]`;
      continue;
    }
    if (char === '[') isInClass = true;
    else if (char === ']') isInClass = false;
    written += char;
  }
  return written;
}
