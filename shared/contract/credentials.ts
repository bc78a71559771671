import { z } from 'zod';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line, opaqueId, warnings } from './base/schemas.ts';

const shared = { tag: 'Credentials', auth: 'bearer' } as const;

const injection = z.strictObject({
  in: z.enum(['bearer', 'header', 'basic', 'query']),
  /** Header or query parameter name, for `header` and `query`. */
  name: z
    .string()
    .regex(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/, 'is not a header or parameter name')
    .optional(),
  /**
   * Text with the placeholder `{secret}`, which is replaced by the secret; `basic` needs
   * `user:{secret}`.
   */
  format: line(500).optional(),
});

const bind = z.strictObject({
  /** Tool globs: `*` within a segment, `**` across segments. */
  tools: z.array(line(200)).min(1).max(100),
  hosts: z.array(line(262)).min(1).max(100),
});

const credentialRecord = z.object({
  id: z.string(),
  name: z.string(),
  version: z.number().int(),
  inject: z.object({
    in: z.enum(['bearer', 'header', 'basic', 'query']),
    name: z.string().optional(),
    format: z.string().optional(),
  }),
  bind: z.object({ tools: z.array(z.string()), hosts: z.array(z.string()) }),
  created_by: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
});
named('Credential', credentialRecord);
export type CredentialRecord = z.output<typeof credentialRecord>;

const credentialExample = {
  id: 'cred_0198c5f0a1b27c3d8e4f5a6b7c8d9e0f',
  name: 'payments',
  version: 1,
  inject: { in: 'bearer' },
  bind: { tools: ['payments.*'], hosts: ['api.payments.example'] },
  created_by: 'alice',
  created_at: '2026-07-01T09:00:00.000Z',
  updated_at: '2026-07-01T09:00:00.000Z',
} as const;

export const listCredentials = operation({
  ...shared,
  id: 'listCredentials',
  method: 'GET',
  path: '/v1/credentials',
  summary: 'The vault’s credentials, as metadata',
  permission: 'read',
  success: {
    status: 200,
    description: 'Metadata only: secrets never leave the vault.',
    schema: z.object({ credentials: z.array(credentialRecord) }),
    example: { credentials: [credentialExample] },
  },
  errors: [],
});

export const storeCredential = operation({
  ...shared,
  id: 'storeCredential',
  method: 'POST',
  path: '/v1/credentials',
  summary: 'Store a credential, or a new version of one',
  description:
    'The secret is stored encrypted and cannot be read back. It is injected only into calls of the bound tools to the bound hosts. An existing name gets a new version. If several credentials cover a call, the first one by name is used, in the order of `GET /v1/credentials`.',
  permission: 'credential.write',
  body: z.strictObject({
    name: z
      .string()
      .regex(/^[0-9A-Za-z][0-9A-Za-z_.-]{0,99}$/, 'is not a name: letters, digits, _ . -'),
    secret: z.string().min(1).max(16_384),
    inject: injection,
    bind,
  }),
  bodyExample: {
    name: 'payments',
    secret: 'sk_live_…',
    inject: { in: 'bearer' },
    bind: { tools: ['payments.*'], hosts: ['api.payments.example'] },
  },
  success: {
    status: 200,
    description:
      'The stored credential, without the secret. `warnings` lists tools that match no registered tool, hosts without a binding, and other credentials that cover the same calls.',
    schema: credentialRecord.extend({ warnings }),
    example: credentialExample,
  },
  errors: ['args.schema_invalid', 'credential.invalid'],
});

export const deleteCredential = operation({
  ...shared,
  id: 'deleteCredential',
  method: 'DELETE',
  path: '/v1/credentials/{id}',
  summary: 'Delete a credential',
  description:
    'Deletes the secret; sidecars discard it at their next synchronisation. Calls that no other credential covers are then sent without a credential; other calls get the next credential by name. Also revoke the secret at the upstream.',
  permission: 'credential.write',
  budget: 'control',
  params: z.object({ id: opaqueId }),
  success: {
    status: 200,
    description: 'The deleted credential, without the secret.',
    schema: credentialRecord,
    example: credentialExample,
  },
  errors: ['request.invalid', 'credential.not_found'],
});
