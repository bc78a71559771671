import { z } from 'zod';
import { simulationLimits } from '../../base/strict-json.ts';
import { modes } from '../../vocabulary/action.ts';
import { decisions } from '../../vocabulary/verdict.ts';
import { actionRequest } from '../actions.ts';
import { riskTier } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyDefinition } from './policy-form.ts';

/** Trying policies out: nothing here changes what is enforced, and nothing is stored. */

const decision = z.enum(decisions);
const actionsMax = 100;
const candidatesMax = 50;

const simulated = actionRequest.omit({ idempotency_key: true });
export type SimulatedAction = z.output<typeof simulated>;

const shared = {
  /** Definitions to judge by, instead of the published ones. */
  policies: z.array(policyDefinition).min(1).max(candidatesMax).optional(),
  /** With `policies`: together with the published ones, in place of those with the same definition id. */
  beside: z.boolean().default(false),
};

// One shape rather than a union, so that an error names the field that is wrong.
const oneAction = Object.keys(simulated.shape).filter((field) => field !== 'mode');
const simulateRequest = z
  .strictObject({
    ...actionRequest.partial().shape,
    ...shared,
    actions: z.array(simulated).min(1).max(actionsMax).optional(),
  })
  .meta({
    anyOf: [
      {
        required: ['actions'],
        properties: Object.fromEntries(oneAction.map((field) => [field, false])),
      },
      { required: ['tool', 'resource', 'agent_id', 'user_id'], properties: { actions: false } },
    ],
  })
  .transform(({ actions, policies, beside, mode, idempotency_key: _, ...single }, context) => {
    const isSingle = Object.values(single).some((value) => value !== undefined);
    if (actions !== undefined && isSingle) {
      context.addIssue({ code: 'custom', message: 'give either actions or one action, not both' });
      return z.NEVER;
    }
    if (actions !== undefined) return { actions, policies, beside, mode };
    const parsed = simulated.safeParse(single);
    if (parsed.success) return { actions: [parsed.data], policies, beside, mode };
    for (const { path, message } of parsed.error.issues) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
    return z.NEVER;
  });
export type SimulateRequest = z.output<typeof simulateRequest>;

const tracedCondition = z.object({
  path: z.string(),
  operator: z.string(),
  /** The literal, or what the `$ref` path holds; absent when that leads nowhere, or is very long. */
  expected: z.unknown().optional(),
  /** What the path holds; absent when it leads nowhere, or is very long. */
  actual: z.unknown().optional(),
  result: z.boolean(),
});

const tracedRule = z.object({
  policy: z.string(),
  rule: z.string(),
  decision: z.string(),
  matched: z.boolean(),
  conditions: z.array(tracedCondition).readonly(),
});
named('TracedRule', tracedRule);
export type TracedRule = z.output<typeof tracedRule>;

const simulation = z.object({
  decision,
  reason_code: z.string(),
  summary: z.string(),
  matched_rules: z.array(z.string()).readonly(),
  risk_tier: riskTier,
  tool_manifest_hash: z.string().optional(),
  policy_hash: z.string().optional(),
  mode: z.enum(modes),
  enforced: z.boolean(),
  /** What deciding in earnest would have done. */
  effects: z
    .array(z.enum(['claim_passport', 'count_usage', 'open_approval', 'spend_approval']))
    .readonly(),
  explain: z.object({
    summary: z.string(),
    matched_rules: z.array(z.string()).readonly(),
    next_steps: z.array(z.string()).readonly(),
    observed: z
      .array(z.object({ rule: z.string(), decision: z.string(), reason: z.string() }))
      .readonly()
      .optional(),
  }),
  /** The rules whose policy applies to this tool and agent; those that matched come first to stay. */
  trace: z.array(tracedRule).readonly(),
  /** Rules that were left out of a long trace. */
  trace_left_off: z.number().int(),
});
named('Simulation', simulation);
export type Simulation = z.output<typeof simulation>;

const counts = z.object({
  allow: z.number().int(),
  deny: z.number().int(),
  warn: z.number().int(),
  require_approval: z.number().int(),
  require_tool_reapproval: z.number().int(),
});

const definitionExample = {
  id: 'refunds',
  version: 2,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'refund.small_in_scope',
      when: { all: [{ path: 'args.amount', operator: '<=', value: 20 }] },
    },
  ],
};

export const simulateActions = operation({
  id: 'simulateActions',
  method: 'POST',
  path: '/v1/simulate',
  tag: 'Policies',
  summary: 'Decide one action or up to 100, without anything coming of it',
  description:
    'The whole decision as preflight makes it, with every rule shown. Judged in the mode that the call itself would have (of the tenant, kill switches and policies); `mode`, or the action’s own, replaces the tenant’s. Nothing is stored: no evidence, no approval, no use of a passport.',
  auth: 'bearer',
  permission: 'read',
  bodySize: simulationLimits,
  body: simulateRequest,
  bodyExample: {
    actions: [
      {
        tool: 'payments.refund',
        resource: 'payment:pay_81',
        args: { amount: 20 },
        agent_id: '7',
        user_id: 'user_12',
      },
    ],
    policies: [definitionExample],
    beside: true,
  },
  success: {
    status: 200,
    description: 'One result for each action, in their order, and how many came to each decision.',
    schema: z.object({ results: z.array(simulation).readonly(), counts }),
    example: {
      results: [
        {
          decision: 'allow',
          reason_code: 'refund.small_in_scope',
          summary: 'Policy allows this action: refund.small_in_scope (rule refunds/small).',
          matched_rules: ['refunds/small'],
          risk_tier: 'medium',
          policy_hash: `sha256:${'5d'.repeat(32)}`,
          mode: 'monitor',
          enforced: false,
          effects: [],
          explain: {
            summary: 'Policy allows this action: refund.small_in_scope (rule refunds/small).',
            matched_rules: ['refunds/small'],
            next_steps: [],
          },
          trace: [
            {
              policy: 'refunds',
              rule: 'small',
              decision: 'allow',
              matched: true,
              conditions: [
                { path: 'args.amount', operator: '<=', expected: 20, actual: 20, result: true },
              ],
            },
          ],
          trace_left_off: 0,
        },
      ],
      counts: { allow: 1, deny: 0, warn: 0, require_approval: 0, require_tool_reapproval: 0 },
    },
  },
  errors: ['args.schema_invalid', 'policy.invalid', 'policy.load_failed', 'agent.mismatch'],
});
