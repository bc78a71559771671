import { z } from 'zod';
import { documentLimits } from '../../base/strict-json.ts';
import { decisions } from '../../vocabulary/verdict.ts';
import { jsonObject, name, rowIdParam, text } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { warnings } from '../base/schemas.ts';
import { definitionExample, policyDefinition, rulesJson } from './policy-form.ts';

export const policyLifecycles = ['draft', 'published', 'archived'] as const;
export type PolicyLifecycle = (typeof policyLifecycles)[number];

export const policyRecord = z.object({
  id: z.number().int(),
  name: z.string(),
  version: z.number().int(),
  lifecycle: z.enum(policyLifecycles),
  policy_hash: z.string(),
  /** The id in the definition; at most one published policy has this id. */
  definition_id: z.string(),
  rules_json: jsonObject,
  created_by: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  published_at: z.string().optional(),
  published_by: z.string().optional(),
  archived_at: z.string().optional(),
  cloned_from: z.number().int().optional(),
});
named('Policy', policyRecord);
export type PolicyRecord = z.output<typeof policyRecord>;
const changedPolicy = policyRecord.extend({ warnings });
export type ChangedPolicy = z.output<typeof changedPolicy>;

export const recordExample = {
  id: 12,
  name: 'Refunds',
  version: 1,
  lifecycle: 'published',
  policy_hash: `sha256:${'5d'.repeat(32)}`,
  definition_id: 'refunds',
  rules_json: definitionExample,
  created_by: 'alice',
  created_at: '2026-11-20T10:00:00.000Z',
  updated_at: '2026-11-20T10:00:00.000Z',
  published_at: '2026-11-20T10:00:00.000Z',
  published_by: 'alice',
} as const;

export const listPolicies = operation({
  id: 'listPolicies',
  method: 'GET',
  path: '/v1/policies',
  tag: 'Policies',
  summary: 'The tenant’s policies',
  auth: 'bearer',
  permission: 'read',
  query: z.object({ lifecycle: z.enum(policyLifecycles).optional() }),
  success: {
    status: 200,
    description: 'Every policy, oldest first.',
    schema: z.object({ policies: z.array(policyRecord) }),
    example: { policies: [recordExample] },
  },
  errors: [],
});

export const createPolicy = operation({
  id: 'createPolicy',
  method: 'POST',
  path: '/v1/policies',
  tag: 'Policies',
  summary: 'Store a policy as a draft, or publish it at once',
  description:
    'An invalid policy is not stored. `publish: true` needs the permission `policy.publish`.',
  auth: 'bearer',
  permission: 'policy.write',
  bodySize: documentLimits,
  body: z.strictObject({
    name: name(100),
    rules_json: rulesJson,
    publish: z.boolean().default(false),
  }),
  bodyExample: { name: 'Refunds', rules_json: definitionExample, publish: true },
  success: {
    status: 201,
    description:
      'The stored policy. `warnings` lists probable mistakes: lint findings of this policy, and tools that match no registered tool.',
    schema: changedPolicy,
    example: recordExample,
  },
  errors: [
    'args.schema_invalid',
    'policy.invalid',
    'auth.insufficient_permission',
    'plan.cap_reached',
  ],
});

export const getPolicy = operation({
  id: 'getPolicy',
  method: 'GET',
  path: '/v1/policies/{id}',
  tag: 'Policies',
  summary: 'One policy',
  auth: 'bearer',
  permission: 'read',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'The policy.',
    schema: policyRecord,
    example: recordExample,
  },
  errors: ['policy.not_found'],
});

export const updatePolicy = operation({
  id: 'updatePolicy',
  method: 'PUT',
  path: '/v1/policies/{id}',
  tag: 'Policies',
  summary: 'Change or publish a draft',
  description:
    'Changing name or rules increments the version. `lifecycle: "published"` alone publishes the same version, and archives the published policy with the same definition id. With `expected_policy_hash`, or with the policy’s `ETag` (its hash in quotes) in `If-Match`, the request fails with 409 `policy.changed` if the draft has changed since.',
  auth: 'bearer',
  permission: 'policy.write',
  params: rowIdParam,
  bodySize: documentLimits,
  body: z
    .strictObject({
      name: name(100).optional(),
      rules_json: rulesJson.optional(),
      lifecycle: z.enum(policyLifecycles).optional(),
      /**
       * The hash of the draft that you read. The request fails if the current draft has another
       * hash.
       */
      expected_policy_hash: z
        .string()
        .regex(/^sha256:[0-9a-f]{64}$/, 'must be a policy hash: sha256: and 64 hex digits')
        .optional(),
    })
    .refine(
      ({ name, rules_json, lifecycle }) =>
        [name, rules_json, lifecycle].some((value) => value !== undefined),
      { message: 'send at least one of name, rules_json, lifecycle' },
    )
    .meta({ anyOf: ['name', 'rules_json', 'lifecycle'].map((field) => ({ required: [field] })) }),
  bodyExample: { lifecycle: 'published', expected_policy_hash: `sha256:${'5d'.repeat(32)}` },
  success: {
    status: 200,
    description:
      'The changed policy. `warnings` lists probable mistakes: lint findings of this policy, and tools that match no registered tool.',
    schema: changedPolicy,
    example: recordExample,
  },
  errors: [
    'policy.not_found',
    'policy.invalid',
    'policy.changed',
    'policy.lifecycle_invalid',
    'auth.insufficient_permission',
  ],
});

export const deletePolicy = operation({
  id: 'deletePolicy',
  method: 'DELETE',
  path: '/v1/policies/{id}',
  tag: 'Policies',
  summary: 'Delete a draft, or archive a published policy',
  auth: 'bearer',
  permission: 'policy.write',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'Whether the policy was deleted or archived.',
    schema: z.object({ id: z.number().int(), outcome: z.enum(['deleted', 'archived']) }),
    example: { id: 12, outcome: 'archived' },
  },
  errors: ['policy.not_found', 'policy.lifecycle_invalid', 'auth.insufficient_permission'],
});

const conditionResult = z.object({
  path: z.string(),
  operator: z.string(),
  /** The literal, or the value at the `$ref` path; absent if there is no value. */
  expected: z.unknown().optional(),
  /** The value at the path; absent if there is no value. */
  actual: z.unknown().optional(),
  result: z.boolean(),
});

const replayVerdict = z.object({
  decision: z.enum(decisions),
  reason_code: z.string(),
  matched_rules: z.array(z.string()).readonly(),
  evidence: z
    .array(
      z.object({
        rule: z.string(),
        decision: z.string(),
        matched: z.boolean(),
        condition_results: z.array(conditionResult).readonly(),
      }),
    )
    .readonly(),
});
named('PolicyReplayVerdict', replayVerdict);

export const replayPolicy = operation({
  id: 'replayPolicy',
  method: 'POST',
  path: '/v1/policies/replay',
  tag: 'Policies',
  summary: 'Evaluate a policy on one context without storing anything',
  auth: 'bearer',
  permission: 'read',
  bodySize: documentLimits,
  body: z.strictObject({
    policy: policyDefinition,
    context: jsonObject,
    expected: z
      .strictObject({
        decision: text(64).optional(),
        reason_code: text(256).optional(),
      })
      .optional(),
  }),
  bodyExample: {
    policy: definitionExample,
    context: { tool: { name: 'payments.refund' }, args: { amount: 20 } },
    expected: { decision: 'allow', reason_code: 'refund.small_in_scope' },
  },
  success: {
    status: 200,
    description: 'The verdict, with the result of each condition.',
    schema: z.object({
      verdict: replayVerdict,
      policy_hash: z.string(),
      evidence_hash: z.string(),
      conformance: z
        .object({
          passed: z.boolean(),
          expected: z.object({
            decision: z.string().optional(),
            reason_code: z.string().optional(),
          }),
          actual: z.object({ decision: z.string(), reason_code: z.string() }),
        })
        .optional(),
    }),
    example: {
      verdict: {
        decision: 'allow',
        reason_code: 'refund.small_in_scope',
        matched_rules: ['refunds/small'],
        evidence: [
          {
            rule: 'small',
            decision: 'allow',
            matched: true,
            condition_results: [
              { path: 'args.amount', operator: '<=', expected: 25, actual: 20, result: true },
            ],
          },
        ],
      },
      policy_hash: `sha256:${'5d'.repeat(32)}`,
      evidence_hash: `sha256:${'7a'.repeat(32)}`,
      conformance: {
        passed: true,
        expected: { decision: 'allow', reason_code: 'refund.small_in_scope' },
        actual: { decision: 'allow', reason_code: 'refund.small_in_scope' },
      },
    },
  },
  errors: ['args.schema_invalid', 'policy.invalid'],
});

export const versionPolicy = operation({
  id: 'versionPolicy',
  method: 'POST',
  path: '/v1/policies/{id}/versions',
  tag: 'Policies',
  summary: 'Create a new draft of a published or archived policy',
  description:
    'Published versions are immutable, so a change starts with a draft, which has the next version number of its definition id. Change a draft directly instead (409).',
  auth: 'bearer',
  permission: 'policy.write',
  params: rowIdParam,
  success: {
    status: 201,
    description: 'The draft.',
    schema: policyRecord,
    example: {
      ...recordExample,
      id: 13,
      version: 2,
      lifecycle: 'draft',
      published_at: undefined,
      published_by: undefined,
      cloned_from: 12,
    },
  },
  errors: ['policy.not_found', 'policy.lifecycle_invalid', 'plan.cap_reached'],
});
