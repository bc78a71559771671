import { z } from 'zod';
import { modes } from '../../vocabulary/action.ts';
import { name } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyRecord, recordExample } from './policies.ts';

const pack = z.object({
  pack: z.string(),
  title: z.string(),
  /** What it stops. */
  description: z.string(),
  policies: z
    .array(
      z.object({
        definition_id: z.string(),
        /** Of the definition as the pack brings it, without another mode. */
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
  summary: 'The curated policies that can be installed',
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
          description: 'Refunds over the limit, and every payout that nobody approved.',
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
  summary: 'Store the policies of a pack, as drafts or published',
  description:
    'Idempotent: a policy that is there already, with the same rules and mode, is left as it is (200). `publish: true` needs the permission `policy.publish` and archives the published policy with the same definition id. `mode` replaces the mode of the policies, for example `monitor` to watch first.',
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
    description: 'What the pack comes to here: 201 when a policy was stored, else 200.',
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
