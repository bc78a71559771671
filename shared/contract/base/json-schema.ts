import { z } from 'zod';

export type Json = Record<string, unknown>;

const forms = new WeakMap<z.core.$ZodType, Json>();

/**
 * States the JSON Schema of a value whose validation zod cannot translate: a transform, a
 * refinement, or a validator of its own. It must accept exactly what the validation accepts, as
 * far as JSON Schema can say it; `npm run fuzz` compares the two.
 */
export function statedAs<Schema extends z.ZodType>(schema: Schema, form: Json): Schema {
  forms.set(schema, form);
  return schema;
}

/** Gives a schema the name that the OpenAPI document and generated clients call it by. */
export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  z.globalRegistry.add(schema, { id });
  return schema;
}

/** The JSON Schema of a value; named schemas are left as references and put into `$defs`. */
export function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: generated }) => {
      // Immutable for TypeScript; in OpenAPI the keyword means that a request must not have it.
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
 * The same pattern for readers of JSON Schema whose `\d` and `\w` match more than ASCII, as those
 * of Python do: the ranges are written out.
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
