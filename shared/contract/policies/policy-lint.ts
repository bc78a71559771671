import { z } from 'zod';
import { documentLimits } from '../../base/strict-json.ts';
import { lintKinds, lintSeverities } from '../../policy/lint/lint-finding.ts';
import { jsonObject } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyLifecycles } from './policies.ts';
import { definitionExample, rulesJson } from './policy-form.ts';

const finding = z.object({
  /** What is wrong. */
  kind: z.enum(lintKinds),
  /** `error`: a rule cannot do what it says; `warning`: probably not as meant; `info`: often meant. */
  severity: z.enum(lintSeverities),
  /** The definition's id. */
  policy: z.string(),
  /** `<definition id>/<rule name>`, or the definition's id where no single rule is at fault. */
  rule: z.string(),
  /** Where in the definition. */
  path: z.string(),
  message: z.string(),
  fix: z.string(),
  /** The rule it clashes with. */
  other: z.string().optional(),
  /** A context in which it shows. */
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
      message: 'refunds/large denies some of what it lets pass; the denial wins.',
      fix: 'Make the conditions of the two exclude each other, so that each says what it decides.',
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
  summary: 'What is probably a mistake in the stored policies',
  description:
    'Contradictions, shadowed rules, rules that never match, limits that a value which is no number slips past, and more. By default the published policies together with the drafts, each draft instead of the published policy with its definition id.',
  auth: 'bearer',
  permission: 'read',
  query: z.object({ lifecycle: z.enum(policyLifecycles).optional() }),
  success: {
    status: 200,
    description: 'Every finding; none is an empty list.',
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
  summary: 'Lint a candidate set of policies; nothing is stored',
  description:
    'With `with_published` beside the published policies; a candidate stands for the published policy with its definition id.',
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
    description: 'Every finding; none is an empty list.',
    schema: report,
    example: reportExample,
  },
  errors: ['args.schema_invalid', 'policy.invalid'],
});
