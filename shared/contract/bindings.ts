import { z } from 'zod';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';

const shared = { tag: 'Runtime', auth: 'bearer' } as const;

const nameParam = z.object({
  name: z
    .string()
    .regex(/^[0-9A-Za-z][0-9A-Za-z_.-]{0,99}$/, 'is not a name: letters, digits, _ . -'),
});

/** The fields of a binding other than its name; shared/binding checks their combination. */
const bindingBody = z.strictObject({
  tool: line(200).optional(),
  protocol: z.enum(['http', 'mcp', 'passthrough']),
  host: line(262),
  method: line(10).optional(),
  path: line(2_000).optional(),
  body: z.enum(['json', 'form', 'none']).optional(),
  resource: line(500).optional(),
  headers: z.array(line(100)).max(50).optional(),
  upgrade: z.boolean().optional(),
  /**
   * For `mcp`: policies decide `resources/list`, `resources/templates/list` and `prompts/list` as
   * actions.
   */
  list_actions: z.boolean().optional(),
  upstream: z
    .strictObject({
      url: line(2_000),
      method: line(10),
      headers: z.record(line(100), z.string().max(2_000)).optional(),
    })
    .optional(),
});

const bindingRecord = z.object({
  name: z.string(),
  tool: z.string().optional(),
  protocol: z.enum(['http', 'mcp', 'passthrough']),
  host: z.string(),
  method: z.string().optional(),
  path: z.string().optional(),
  body: z.enum(['json', 'form', 'none']).optional(),
  resource: z.string().optional(),
  headers: z.array(z.string()).readonly().optional(),
  upgrade: z.boolean().optional(),
  /**
   * For `mcp`: policies decide `resources/list`, `resources/templates/list` and `prompts/list` as
   * actions.
   */
  list_actions: z.boolean().optional(),
  upstream: z
    .object({
      url: z.string(),
      method: z.string(),
      headers: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
  updated_by: z.string(),
  updated_at: z.string(),
});
named('Binding', bindingRecord);
export type BindingRecord = z.output<typeof bindingRecord>;

const bindingExample = {
  name: 'refunds',
  tool: 'payments.refund',
  protocol: 'http',
  host: 'api.payments.example',
  method: 'POST',
  path: '/v1/payments/{payment_id}/refunds',
  body: 'json',
  resource: 'payment:{payment_id}',
} as const;
const writtenExample = {
  ...bindingExample,
  updated_by: 'alice',
  updated_at: '2026-07-01T09:00:00.000Z',
};

export const listBindings = operation({
  ...shared,
  id: 'listBindings',
  method: 'GET',
  path: '/v1/runtime/bindings',
  summary: 'List bindings',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every binding, by name.',
    schema: z.object({ bindings: z.array(bindingRecord) }),
    example: { bindings: [writtenExample] },
  },
  errors: [],
});

export const putBinding = operation({
  ...shared,
  id: 'putBinding',
  method: 'PUT',
  path: '/v1/runtime/bindings/{name}',
  summary: 'Create or replace a binding',
  description:
    'Maps a host, or calls on it, to tools. On a host with bindings, calls without a binding are refused. A binding that covers the same calls as another, equally specific one is refused.',
  permission: 'policy.publish',
  params: nameParam,
  body: bindingBody,
  bodyExample: {
    tool: 'payments.refund',
    protocol: 'http',
    host: 'api.payments.example',
    method: 'POST',
    path: '/v1/payments/{payment_id}/refunds',
    body: 'json',
    resource: 'payment:{payment_id}',
  },
  success: {
    status: 200,
    description: 'The stored binding, with its host in canonical form.',
    schema: bindingRecord,
    example: writtenExample,
  },
  errors: ['args.schema_invalid', 'binding.invalid', 'binding.overlap'],
  accessExample: 'own-name',
});

export const deleteBinding = operation({
  ...shared,
  id: 'deleteBinding',
  method: 'DELETE',
  path: '/v1/runtime/bindings/{name}',
  summary: 'Delete a binding',
  permission: 'policy.publish',
  params: nameParam,
  success: {
    status: 200,
    description: 'The deleted binding.',
    schema: bindingRecord,
    example: writtenExample,
  },
  errors: ['binding.not_found'],
});
