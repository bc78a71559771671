import { z } from 'zod';
import { documentLimits } from '../../base/strict-json.ts';
import { modes } from '../../vocabulary/action.ts';
import { decisions } from '../../vocabulary/verdict.ts';
import { rowIdParam } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { dateTime } from '../base/schemas.ts';
import { evidenceCursor } from '../evidence/evidence.ts';
import { policyDefinition } from './policy-form.ts';

/** Backtests on the ledger. They store nothing and do not change enforcement. */

const decision = z.enum(decisions);

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

function isInOrder({ from, to }: { from?: string | undefined; to?: string | undefined }) {
  return from === undefined || to === undefined || Date.parse(from) <= Date.parse(to);
}
const outOfOrder = { path: ['from'], message: 'must not be after to' };

const backtestRequest = z
  .strictObject({
    policy: policyDefinition,
    /** True: evaluates the policy together with the published policies. False: evaluates it alone. */
    beside: z.boolean().default(true),
    from: dateTime.optional(),
    to: dateTime.optional(),
    limit: z.number().int().min(1).max(10_000).default(1_000),
    /** `next_cursor` of the previous response. */
    cursor: evidenceCursor.optional(),
  })
  .refine(isInOrder, outOfOrder);
export type BacktestRequest = z.output<typeof backtestRequest>;

const change = z.object({
  event_id: z.string(),
  occurred_at: z.string(),
  tool: z.string(),
  agent_id: z.string(),
  old: decision,
  new: decision,
  old_reason_code: z.string(),
  /** Null if the decision is certain, but the rule that supplies the reason is not. */
  reason_code: z.string().nullable(),
  /** Rules that certainly match. */
  matched_rules: z.array(z.string()).readonly(),
});
named('BacktestChange', change);

const backtestReport = z.object({
  examined: z.number().int(),
  changed: z.number().int(),
  /**
   * Number of decisions that depend on data outside the ledger, such as the value of an argument.
   */
  unknown: z.number().int(),
  /** Number of decisions that were not made by policies; the backtest leaves them unchanged. */
  not_by_policy: z.number().int(),
  /** Number of occurrences of each `old→new` pair of decisions. */
  counts: z.record(z.string(), z.number().int()),
  /** The first 500 changes. */
  changes: z.array(change).readonly(),
  /** The first 50 unknown decisions, with the rules that each of them depends on. */
  unknowns: z
    .array(
      z.object({
        event_id: z.string(),
        tool: z.string(),
        unsure_rules: z.array(z.string()).readonly(),
      }),
    )
    .readonly(),
  /** Null if all decisions were examined; otherwise the position to continue from. */
  next_cursor: z.string().nullable(),
});
named('BacktestReport', backtestReport);
export type BacktestReport = z.output<typeof backtestReport>;

export const backtestPolicy = operation({
  id: 'backtestPolicy',
  method: 'POST',
  path: '/v1/policies/backtest',
  tag: 'Policies',
  summary: 'Backtest a candidate policy on stored decisions',
  description:
    'The ledger has no argument values, so a decision that depends on one is counted as `unknown`. Oldest first; a response covers up to `limit` decisions, or as many as ten seconds allow.',
  auth: 'bearer',
  permission: 'evidence.read',
  budgetPerMinute: 60,
  bodySize: documentLimits,
  body: backtestRequest,
  bodyExample: {
    policy: definitionExample,
    from: '2026-11-14T00:00:00Z',
    to: '2026-11-21T00:00:00Z',
    limit: 5000,
  },
  success: {
    status: 200,
    description: 'The decisions that would have changed.',
    schema: backtestReport,
    example: {
      examined: 2410,
      changed: 1,
      unknown: 12,
      not_by_policy: 31,
      counts: { 'allow→deny': 1 },
      changes: [
        {
          event_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
          occurred_at: '2026-11-18T08:12:44.310Z',
          tool: 'payments.refund',
          agent_id: '7',
          old: 'allow',
          new: 'deny',
          old_reason_code: 'refund.small_in_scope',
          reason_code: 'policy.no_match',
          matched_rules: [],
        },
      ],
      unknowns: [
        {
          event_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8e',
          tool: 'payments.refund',
          unsure_rules: ['refunds/small'],
        },
      ],
      next_cursor: null,
    },
  },
  errors: [
    'args.schema_invalid',
    'policy.invalid',
    'policy.load_failed',
    'evidence.cursor_invalid',
  ],
});

const observedRule = z.object({ rule: z.string(), decision: z.string(), count: z.number().int() });

const observedReport = z.object({
  policy_id: z.number().int(),
  definition_id: z.string(),
  mode: z.enum(modes),
  from: z.string().nullable(),
  to: z.string().nullable(),
  /** Number of decisions in the period. */
  examined: z.number().int(),
  /** Number of decisions in which a rule of this policy matched. */
  matched: z.number().int(),
  /** Number of allowed decisions that this policy would have refused or held. */
  would_refuse: z.number().int(),
  by_decision: z.record(z.string(), z.number().int()),
  by_reason: z
    .array(z.object({ decision, reason_code: z.string(), count: z.number().int() }))
    .readonly(),
  by_rule: z.array(observedRule).readonly(),
  /** Up to 20 event ids, beginning with decisions that this policy would have refused. */
  examples: z.array(z.string()).readonly(),
  /** False if the evaluation did not finish within ten seconds; narrow `from` and `to`. */
  complete: z.boolean(),
});
export type ObservedReport = z.output<typeof observedReport>;

export const getObservedDecisions = operation({
  id: 'getObservedDecisions',
  method: 'GET',
  path: '/v1/policies/{id}/observed',
  tag: 'Policies',
  summary: 'Decisions that a policy in monitor or warn would have made',
  description:
    'Counted from the ledger, by default over the period in which this version was published; set `from` and `to` for another period. If several of its rules matched, the most restrictive one counts.',
  auth: 'bearer',
  permission: 'evidence.read',
  budgetPerMinute: 60,
  params: rowIdParam,
  query: z
    .object({ from: dateTime.optional(), to: dateTime.optional() })
    .refine(isInOrder, outOfOrder),
  success: {
    status: 200,
    description: 'The number of each decision that it would have made.',
    schema: observedReport,
    example: {
      policy_id: 12,
      definition_id: 'refunds',
      mode: 'monitor',
      from: '2026-11-14T00:00:00.000Z',
      to: null,
      examined: 2410,
      matched: 18,
      would_refuse: 17,
      by_decision: { deny: 18 },
      by_reason: [{ decision: 'deny', reason_code: 'refund.out_of_policy', count: 18 }],
      by_rule: [{ rule: 'large', decision: 'deny', count: 18 }],
      examples: ['ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d'],
      complete: true,
    },
  },
  errors: ['policy.not_found'],
});
