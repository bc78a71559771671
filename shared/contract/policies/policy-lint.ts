import { z } from 'zod';
import { documentLimits } from '../../base/strict-json.ts';
import { lintKinds, lintSeverities } from '../../policy/lint/lint-finding.ts';
import { jsonObject } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyLifecycles } from './policies.ts';
import { definitionExample, rulesJson } from './policy-form.ts';

const finding = z.object({
  /** The kind of problem. */
  kind: z.enum(lintKinds),
  /**
   * `error`: a rule cannot have its intended effect; `warning`: probably a mistake; `info`: often
   * intended.
   */
  severity: z.enum(lintSeverities),
  /** The definition's id. */
  policy: z.string(),
  /** `<definition id>/<rule name>`, or the definition's id if no single rule is at fault. */
  rule: z.string(),
  /** Path of the problem within the definition. */
  path: z.string(),
  message: z.string(),
  fix: z.string(),
  /** The rule with which `rule` conflicts. */
  other: z.string().optional(),
  /** A context that demonstrates the finding. */
  example: jsonObject.optional(),
});
named('LintFinding', finding);

const report = z.object({
  findings: z.array(finding).readonly(),
  counts: z.object({
    error: z.number().int(),
    warning: z.number().int(),
    info: z.number().int(),
  }),
});
named('LintReport', report);

const reportExample = {
  findings: [
    {
      kind: 'contradiction',
      severity: 'warning',
      policy: 'refunds',
      rule: 'refunds/small',
      path: 'rules[0]',
      message: 'refunds/large denies some of what it allows; the denial wins.',
      fix: 'Make the conditions of both rules exclude each other.',
      other: 'refunds/large',
      example: { tool: { name: 'payments.refund' }, args: { amount: 23 } },
    },
  ],
  counts: { error: 0, warning: 1, info: 0 },
} as const;

export const lintStoredPolicies = operation({
  id: 'lintStoredPolicies',
  method: 'GET',
  path: '/v1/policies/lint',
  tag: 'Policies',
  summary: 'Lint the stored policies',
  description:
    'Reports probable mistakes: contradictions, shadowed rules, rules that never match, limits that a non-numeric value bypasses, and more. By default it checks the published policies together with the drafts; a draft replaces the published policy with its definition id.',
  auth: 'bearer',
  permission: 'read',
  query: z.object({ lifecycle: z.enum(policyLifecycles).optional() }),
  success: {
    status: 200,
    description: 'The findings; an empty list if there are none.',
    schema: report,
    example: reportExample,
  },
  errors: [],
});

export const lintPolicySet = operation({
  id: 'lintPolicySet',
  method: 'POST',
  path: '/v1/policies/lint',
  tag: 'Policies',
  summary: 'Lint candidate policies without storing them',
  description:
    'With `with_published`, the published policies are included; a candidate replaces the published policy with its definition id.',
  auth: 'bearer',
  permission: 'read',
  bodyBytesMax: 2_097_152,
  bodySize: documentLimits,
  body: z.strictObject({
    policies: z.array(rulesJson).min(1).max(1000),
    with_published: z.boolean().default(false),
  }),
  bodyExample: { policies: [definitionExample], with_published: true },
  success: {
    status: 200,
    description: 'The findings; an empty list if there are none.',
    schema: report,
    example: reportExample,
  },
  errors: ['args.schema_invalid', 'policy.invalid'],
});
