import { z } from 'zod';
import { modes } from '../vocabulary/action.ts';
import { decisions } from '../vocabulary/verdict.ts';
import {
  agentId,
  goal,
  jsonObject,
  name,
  resourceId,
  riskTier,
  toolId,
  userId,
} from './base/fields.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';

export const actionRequest = z.strictObject({
  tool: toolId,
  resource: resourceId,
  args: jsonObject.optional(),
  agent_id: agentId,
  agent_name: name(256).optional(),
  user_id: userId,
  goal: goal.optional(),
  mode: z.enum(modes).optional(),
  /**
   * Any text is accepted here, so that an invalid passport leads to a verdict and not to a bad
   * request.
   */
  passport: z.string().max(65_536).optional(),
  audience: name(512).optional(),
  idempotency_key: name(255).optional(),
});
named('ActionRequest', actionRequest);
export type ActionRequest = z.output<typeof actionRequest>;

const observedRule = z.object({ rule: z.string(), decision: z.string(), reason: z.string() });

export const actionResponse = z.object({
  decision: z.enum(decisions),
  reason_code: z.string(),
  summary: z.string(),
  matched_rules: z.array(z.string()).readonly(),
  approval_request_id: z.string().optional(),
  chain_id: z.string(),
  risk_tier: riskTier,
  tool_manifest_hash: z.string().optional(),
  policy_hash: z.string().optional(),
  evidence_event_id: z.string(),
  mode: z.enum(modes),
  enforced: z.boolean(),
  explain: z.object({
    summary: z.string(),
    matched_rules: z.array(z.string()).readonly(),
    next_steps: z.array(z.string()).readonly(),
    /** The decisions that matching rules of `monitor` policies would have made. */
    observed: z.array(observedRule).readonly().optional(),
    /**
     * `resets_at`: when an exhausted budget allows the same call again, if no other calls are
     * counted until then. `approver_comment`: the redacted comment of a human who recently denied
     * this action or asked about it.
     */
    details: z
      .object({ resets_at: z.string().optional(), approver_comment: z.string().optional() })
      .optional(),
  }),
});
named('ActionDecision', actionResponse);
export type ActionResponse = z.output<typeof actionResponse>;

const requestExample = {
  tool: 'payments.refund',
  resource: 'payment:pay_81',
  args: { amount: 40, currency: 'EUR' },
  agent_id: '7',
  user_id: 'user_12',
  goal: 'Refund the customer for a damaged parcel',
};

const responseExample = {
  decision: 'require_approval',
  reason_code: 'refund.needs_human',
  summary: 'A human must approve this action.',
  matched_rules: ['refunds/over_25'],
  approval_request_id: '42',
  chain_id: 'agent:7',
  risk_tier: 'high',
  policy_hash: `sha256:${'5d'.repeat(32)}`,
  evidence_event_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
  mode: 'enforce',
  enforced: true,
  explain: {
    summary: 'A human must approve this action.',
    matched_rules: ['refunds/over_25'],
    next_steps: ['Wait for approval 42, then send the action again.'],
  },
};

const executionFailure = z.object({
  reason_code: z.string(),
  summary: z.string(),
  next_steps: z.array(z.string()).readonly(),
});

const executionResult = z.object({
  status: z.number().int(),
  /** Response headers of the upstream that are forwarded; names in lower case. */
  headers: z.record(z.string(), z.string()),
  /** A JSON value, text, or base64 for other content; absent without a body. */
  body: z.unknown().optional(),
  body_format: z.enum(['json', 'text', 'base64', 'none']),
  /** Length of the received body; for a truncated body, the number of bytes that were read. */
  body_bytes: z.number().int(),
  truncated: z.boolean(),
});
named('ExecutionResult', executionResult);
export type ExecutionResult = z.output<typeof executionResult>;

export const executeResponse = actionResponse.extend({
  /** `unknown`: the request was sent, but it is unknown whether the upstream performed it. */
  executed: z.union([z.boolean(), z.literal('unknown')]),
  result: executionResult.optional(),
  /** The reason why there is no complete response although the decision allowed the call. */
  failure: executionFailure.optional(),
  /**
   * Id of the `execution.result` event, whose `decision_event_id` equals this response's
   * `evidence_event_id`.
   */
  result_event_id: z.string().optional(),
  /** Present if the result could not be sealed yet; it is stored as a dead letter. */
  dead_lettered: z.literal(true).optional(),
});
export type ExecuteResponse = z.output<typeof executeResponse>;

const passportErrors = [
  'passport.missing',
  'passport.malformed',
  'passport.signature_invalid',
  'passport.expired',
  'passport.not_yet_valid',
  'passport.audience_mismatch',
  'passport.revoked',
  'passport.replay_detected',
  'passport.tenant_mismatch',
  'passport.agent_mismatch',
  'passport.user_mismatch',
  'passport.claim_unavailable',
] as const;

const shared = {
  method: 'POST',
  tag: 'Actions',
  auth: 'bearer',
  permission: 'action.preflight',
  isDecision: true,
  body: actionRequest,
  bodyExample: requestExample,
  success: {
    status: 200,
    description: 'The decision; nothing is executed.',
    schema: actionResponse,
    example: responseExample,
  },
  errors: [
    'args.schema_invalid',
    'args.idempotency_conflict',
    'agent.mismatch',
    ...passportErrors,
    'policy.load_failed',
    'evidence.seal_failed',
  ],
} as const;

export const preflight = operation({
  ...shared,
  id: 'preflight',
  path: '/v1/actions/preflight',
  summary: 'Decide an action without performing it',
});

export const decideAction = operation({
  ...shared,
  id: 'decideAction',
  path: '/v1/actions/decision',
  summary: 'Same as preflight',
});

export const executeAction = operation({
  id: 'executeAction',
  method: 'POST',
  path: '/v1/actions/execute',
  tag: 'Actions',
  auth: 'gateway',
  permission: 'action.execute',
  isDecision: true,
  summary: 'Decide an action and perform it if allowed',
  description: [
    'Evaluated as at a sidecar: `mode` can only tighten the tenant’s mode. An allowed call is sent to the `upstream` of the tool’s binding, with the credential that is bound to tool and host; redirects are not followed. `resource` must match the arguments: the filled resource template of the binding, or without a template the path of the bound call.',
    'Every decision returns 200, also if the upstream failed: `executed` states whether the call was performed, `failure` the error, `result` the upstream’s response.',
    'With `idempotency_key` the call is sent at most once. A repeated request gets the stored response, or waits for the first one (503 `args.idempotency_in_flight` after 30 seconds). If the first process stopped between sending and responding, the result is `executed: "unknown"` (`execution.outcome_unknown`). You can retry with the same key only if an outage prevented sending.',
  ].join('\n\n'),
  body: actionRequest,
  bodyExample: requestExample,
  success: {
    status: 200,
    description: 'The decision, and the outcome of the call if it was sent.',
    schema: executeResponse,
    example: {
      decision: 'allow',
      reason_code: 'refund.small_in_scope',
      summary: 'Policy allows this action: refund.small_in_scope (rule refunds/small).',
      matched_rules: ['refunds/small'],
      chain_id: 'agent:7',
      risk_tier: 'medium',
      policy_hash: `sha256:${'5d'.repeat(32)}`,
      evidence_event_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
      mode: 'enforce',
      enforced: true,
      explain: {
        summary: 'Policy allows this action: refund.small_in_scope (rule refunds/small).',
        matched_rules: ['refunds/small'],
        next_steps: [],
      },
      executed: true,
      result: {
        status: 201,
        headers: { 'content-type': 'application/json' },
        body: { refund_id: 're_19', amount: 40 },
        body_format: 'json',
        body_bytes: 34,
        truncated: false,
      },
      result_event_id: 'ev_019a3f6c2c017d21b3a8c55e0f6f7a90',
    },
  },
  errors: [
    'args.schema_invalid',
    'args.idempotency_conflict',
    'args.idempotency_in_flight',
    'auth.gateway_scope_required',
    'agent.mismatch',
    ...passportErrors,
    'policy.load_failed',
    'evidence.seal_failed',
  ],
});
