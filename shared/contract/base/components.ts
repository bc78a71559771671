import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { type Json, jsonSchema } from './json-schema.ts';

const local = '#/$defs/';
const shared = '#/components/schemas/';

/** The schemas of an OpenAPI document, each defined once under its name. */
export class Components {
  readonly #schemas = new Map<string, Json>();

  /** Returns a reference to a named schema, or the schema itself if it has no name. */
  use(schema: z.ZodType, io: 'input' | 'output', name?: string): Json {
    const { $defs = {}, ...root } = jsonSchema(schema, io) as { $defs?: Record<string, Json> };
    const names = new Map(Object.keys($defs).map((id) => [id, this.#nameFor(id, $defs, io)]));
    for (const [id, definition] of Object.entries($defs)) {
      this.#schemas.set(names.get(id) ?? id, renamed(definition, names) as Json);
    }
    const renamedRoot = renamed(root, names) as Json;
    if (name === undefined || renamedRoot.type !== 'object') return renamedRoot;
    this.#schemas.set(name, renamedRoot);
    return { $ref: `${shared}${name}` };
  }

  /** The schemas by name. */
  all(): Record<string, Json> {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** A schema whose request and response forms differ gets two names. */
  #nameFor(id: string, definitions: Record<string, Json>, io: 'input' | 'output'): string {
    const asIs = new Map(Object.keys(definitions).map((known) => [known, known]));
    const held = this.#schemas.get(id);
    if (held === undefined || isDeepStrictEqual(held, renamed(definitions[id], asIs))) return id;
    return `${id}${io === 'input' ? 'Input' : 'Output'}`;
  }
}

function renamed(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, names));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      if (key !== '$ref' || typeof member !== 'string') return [key, renamed(member, names)];
      const id = member.slice(local.length);
      return [key, `${shared}${names.get(id) ?? id}`];
    }),
  );
}
