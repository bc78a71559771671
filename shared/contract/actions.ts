import { z } from 'zod';
import { modes } from '../decision/action.ts';
import { decisions } from '../decision/verdict.ts';
import { agentId, goal, jsonObject, name, resourceId, riskTier, toolId, userId } from './fields.ts';
import { operation } from './operation.ts';

export const actionRequest = z.object({
  tool: toolId,
  resource: resourceId,
  args: jsonObject.optional(),
  agent_id: agentId,
  agent_name: name(256).optional(),
  user_id: userId,
  goal: goal.optional(),
  mode: z.enum(modes).optional(),
  /** Whatever is sent is judged by the decision, so that a bad passport is a verdict and not a bad request. */
  passport: z.string().max(65_536).optional(),
  audience: name(512).optional(),
  idempotency_key: name(255).optional(),
});
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
    /** What rules of policies in `monitor` would have decided. */
    observed: z.array(observedRule).readonly().optional(),
  }),
});
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

const shared = {
  method: 'POST',
  tag: 'Actions',
  auth: 'bearer',
  permission: 'action.preflight',
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
    'passport.missing',
    'passport.malformed',
    'passport.signature_invalid',
    'passport.expired',
    'passport.audience_mismatch',
    'passport.revoked',
    'passport.replay_detected',
    'passport.tenant_mismatch',
    'passport.claim_unavailable',
    'evidence.seal_failed',
  ],
} as const;

export const preflight = operation({
  ...shared,
  id: 'preflight',
  path: '/v1/actions/preflight',
  summary: 'Decide on an action without performing it',
});

export const decideAction = operation({
  ...shared,
  id: 'decideAction',
  path: '/v1/actions/decision',
  summary: 'The same as preflight, under its other name',
});
