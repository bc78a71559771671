import { z } from 'zod';
import { modes } from '../../vocabulary/action.ts';
import { name } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyRecord, recordExample } from './policies.ts';

const pack = z.object({
  pack: z.string(),
  title: z.string(),
  /** The actions that the pack stops. */
  description: z.string(),
  policies: z
    .array(
      z.object({
        definition_id: z.string(),
        /** Hash of the definition as in the pack, with its original mode. */
        policy_hash: z.string(),
        rules: z.number().int(),
      }),
    )
    .readonly(),
});
named('PolicyPack', pack);

export const listPolicyPacks = operation({
  id: 'listPolicyPacks',
  method: 'GET',
  path: '/v1/policies/packs',
  tag: 'Policies',
  summary: 'List policy packs',
  auth: 'bearer',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every pack, by name.',
    schema: z.object({ packs: z.array(pack).readonly() }),
    example: {
      packs: [
        {
          pack: 'payments',
          title: 'Payments and refunds',
          description: 'Denies refunds over the limit, and payouts without approval.',
          policies: [
            {
              definition_id: 'pack.payments',
              policy_hash: `sha256:${'5d'.repeat(32)}`,
              rules: 6,
            },
          ],
        },
      ],
    },
  },
  errors: [],
});

export const installPolicyPack = operation({
  id: 'installPolicyPack',
  method: 'POST',
  path: '/v1/policies/install-pack',
  tag: 'Policies',
  summary: 'Install a policy pack, as drafts or published',
  description:
    'Idempotent: an existing policy with the same rules and mode is unchanged (200). `publish: true` needs the permission `policy.publish` and archives the published policy with the same definition id. `mode` replaces the mode of the policies, for example `monitor` to observe first.',
  auth: 'bearer',
  permission: 'policy.write',
  body: z.strictObject({
    pack: name(100),
    publish: z.boolean().default(false),
    mode: z.enum(modes).optional(),
  }),
  bodyExample: { pack: 'payments', publish: true },
  success: {
    status: 201,
    description: 'The policies of the pack: 201 if a policy was stored, otherwise 200.',
    schema: z.object({
      pack: z.string(),
      policies: z
        .array(
          z.object({
            outcome: z.enum(['created', 'published', 'unchanged']),
            policy: policyRecord,
          }),
        )
        .readonly(),
    }),
    example: { pack: 'payments', policies: [{ outcome: 'created', policy: recordExample }] },
  },
  alsoStatus: [200],
  errors: [
    'args.schema_invalid',
    'policy.pack_not_found',
    'auth.insufficient_permission',
    'plan.cap_reached',
  ],
});
