import { z } from 'zod';
import { simulationLimits } from '../../base/strict-json.ts';
import { modes } from '../../vocabulary/action.ts';
import { decisions } from '../../vocabulary/verdict.ts';
import { actionRequest } from '../actions.ts';
import { riskTier } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { policyDefinition } from './policy-form.ts';

/** Policy simulation. It stores nothing and does not change enforcement. */

const decision = z.enum(decisions);
const actionsMax = 100;
const candidatesMax = 50;

const simulated = actionRequest.omit({ idempotency_key: true });
export type SimulatedAction = z.output<typeof simulated>;

const shared = {
  /** Definitions to evaluate instead of the published policies. */
  policies: z.array(policyDefinition).min(1).max(candidatesMax).optional(),
  /**
   * With `policies`: evaluates these definitions together with the published policies. A definition
   * replaces the published policy with the same definition id.
   */
  beside: z.boolean().default(false),
};

// One object schema instead of a union, so that error messages identify the invalid field.
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
      context.addIssue({ code: 'custom', message: 'send either actions or one action, not both' });
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
  /**
   * The literal, or the value at the `$ref` path; absent if there is no value, or a very long one.
   */
  expected: z.unknown().optional(),
  /** The value at the path; absent if there is no value, or a very long one. */
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
  /** The effects that a real decision would have had. */
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
  /**
   * Rules whose policies apply to this tool and agent. If there are too many, rules that did not
   * match are omitted first.
   */
  trace: z.array(tracedRule).readonly(),
  /** Number of rules omitted from a long trace. */
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
  summary: 'Simulate up to 100 actions against policies',
  description:
    'Makes the same decision as preflight and reports every rule. The mode is that of the real call (from tenant, kill switches and policies); `mode`, or the action’s own mode, replaces the tenant’s. Nothing is stored: no evidence, no approval, no use of a passport.',
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
    description: 'One result for each action, in request order, and the number of each decision.',
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
