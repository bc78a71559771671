import { environments, riskTiers } from '../../vocabulary/action.ts';

type Field =
  /** `words`: the only possible values. `always`: every context has the field. */
  | { readonly kind: 'text'; readonly words?: readonly string[]; readonly always?: boolean }
  | { readonly kind: 'object'; readonly fields?: Readonly<Record<string, Field>> }
  | { readonly kind: 'anything' };

const text: Field = { kind: 'text' };
const alwaysText: Field = { kind: 'text', always: true };

/** The fields of a PolicyContext. An object without `fields` is free-form. */
const contextFields: Readonly<Record<string, Field>> = {
  tenant: { kind: 'object', fields: { id: alwaysText, name: alwaysText } },
  agent: { kind: 'object', fields: { id: alwaysText, name: text, goal: text } },
  user: { kind: 'object', fields: { id: alwaysText, email: text, role: text } },
  tool: {
    kind: 'object',
    fields: {
      name: alwaysText,
      current_manifest_hash: text,
      risk_tier: { kind: 'text', words: riskTiers },
    },
  },
  passport: {
    kind: 'object',
    fields: {
      goal: text,
      resource_constraints: { kind: 'object' },
      audience: { kind: 'anything' },
      tenant_id: text,
    },
  },
  args: { kind: 'object' },
  mcp: {
    kind: 'object',
    fields: {
      meta: { kind: 'object' },
      task: { kind: 'object' },
      input_responses: { kind: 'object' },
      request_state: text,
      headers: { kind: 'object' },
    },
  },
  resource: {
    kind: 'object',
    fields: { id: alwaysText, type: text, customer_id: { kind: 'anything' } },
  },
  environment: { kind: 'text', words: environments, always: true },
  usage: {
    kind: 'object',
    fields: {
      calls_1h: { kind: 'anything' },
      calls_24h: { kind: 'anything' },
      sum_24h: { kind: 'object' },
    },
  },
};

/** The field at a path; undefined if no context has that path. */
export function fieldAt(path: string): Field | undefined {
  let field: Field = { kind: 'object', fields: contextFields };
  for (const segment of path.split('.')) {
    if (field.kind === 'text') return undefined;
    if (field.kind === 'anything' || field.fields === undefined) return { kind: 'anything' };
    const next: Field | undefined = Object.hasOwn(field.fields, segment)
      ? field.fields[segment]
      : undefined;
    if (next === undefined) return undefined;
    field = next;
  }
  return field;
}

/** The field names of a context, or of the object at `path`; undefined if any name is possible. */
export function fieldNames(path?: string): readonly string[] | undefined {
  const field = path === undefined ? { fields: contextFields } : fieldAt(path);
  return field !== undefined && 'fields' in field && field.fields !== undefined
    ? Object.keys(field.fields)
    : undefined;
}
