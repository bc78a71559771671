import { z } from 'zod';
import { approvalActions, approvalStates } from '../approval/states.ts';
import { jsonObject, riskTier, rowIdParam, text } from './fields.ts';
import { operation } from './operation.ts';
import { integerId, pageLimit } from './schemas.ts';

const vote = z.object({
  principal: z.string(),
  role: z.string(),
  action: z.string(),
  source: z.string(),
  comment: z.string().optional(),
  voted_at: z.string(),
});

const approvalRecord = z.object({
  id: z.number().int(),
  kind: z.enum(['action', 'tool']),
  status: z.enum(approvalStates),
  agent_id: z.string(),
  user_id: z.string(),
  tool: z.string(),
  resource: z.string(),
  risk_tier: riskTier,
  reason_code: z.string(),
  summary: z.string(),
  goal: z.string().optional(),
  chain_id: z.string(),
  policy_hash: z.string().optional(),
  tool_manifest_hash: z.string().optional(),
  action_digest: z.string(),
  effective_digest: z.string().optional(),
  channels: z.array(z.string()),
  min_role: z.string(),
  quorum: z.number().int(),
  /** What the agent asked for; only for callers who may decide. */
  proposed_args: jsonObject.optional(),
  /** What may be performed, after `modify`; only for callers who may decide. */
  effective_args: jsonObject.optional(),
  requested_at: z.string(),
  expires_at: z.string(),
  escalated_by: z.string().optional(),
  decided_by: z.string().optional(),
  decided_at: z.string().optional(),
  comment: z.string().optional(),
  event_hash: z.string().optional(),
  grant_expires_at: z.string().optional(),
  used_at: z.string().optional(),
  votes: z.array(vote),
});
export type ApprovalRecord = z.output<typeof approvalRecord>;

const recordExample = {
  id: 42,
  kind: 'action',
  status: 'pending',
  agent_id: '7',
  user_id: 'user_12',
  tool: 'payments.refund',
  resource: 'payment:pay_81',
  risk_tier: 'high',
  reason_code: 'refund.needs_human',
  summary: 'Policy requires a human to approve this action.',
  chain_id: 'agent:7',
  action_digest: `sha256:${'3e'.repeat(32)}`,
  channels: ['chat_a'],
  min_role: 'approver',
  quorum: 1,
  proposed_args: { amount: 40, currency: 'EUR' },
  requested_at: '2026-11-20T10:00:00.000Z',
  expires_at: '2026-11-20T11:00:00.000Z',
  votes: [],
} as const;

export const listApprovals = operation({
  id: 'listApprovals',
  method: 'GET',
  path: '/v1/approvals',
  tag: 'Approvals',
  summary: 'The tenant’s approval queue, newest first',
  auth: 'bearer',
  permission: 'read',
  // Counted apart: neither a noisy agent nor a watching screen takes it from those who decide and stop.
  budgetPerMinute: 600,
  query: z.object({
    status: z.enum(approvalStates).optional(),
    kind: z.enum(['action', 'tool']).optional(),
    agent_id: text(64).optional(),
    limit: pageLimit,
    /** Continues after the page that gave this `next_cursor`. */
    cursor: integerId.optional(),
  }),
  success: {
    status: 200,
    description: 'One page of approvals.',
    schema: z.object({
      approvals: z.array(approvalRecord),
      next_cursor: z.string().nullable(),
    }),
    example: { approvals: [recordExample], next_cursor: null },
  },
  errors: [],
});

export const decideApproval = operation({
  id: 'decideApproval',
  method: 'POST',
  path: '/v1/approvals/{id}/decide',
  tag: 'Approvals',
  summary: 'Decide on an approval',
  description:
    'Who decides is the principal of the API key. Nobody decides on their own request, and a second decision on a closed approval is refused.',
  auth: 'bearer',
  permission: 'approval.decide',
  budget: 'control',
  params: rowIdParam,
  body: z.object({
    action: z.enum(approvalActions),
    comment: text(4000).optional(),
    /** For `modify`: the arguments that may be performed instead. */
    modified_args: jsonObject.optional(),
  }),
  bodyExample: { action: 'approve', comment: 'Parcel was damaged, see ticket 77' },
  success: {
    status: 200,
    description: 'The new status, and the hash of the ledger row that binds decider and action.',
    schema: z.object({
      id: z.number().int(),
      status: z.enum(approvalStates),
      action: z.enum(approvalActions),
      event_hash: z.string(),
      evidence_id: z.string(),
      decided_by: z.string(),
      /** Votes that a quorum still waits for. */
      votes_missing: z.number().int(),
      effective_digest: z.string().optional(),
      grant_expires_at: z.string().optional(),
    }),
    example: {
      id: 42,
      status: 'approved',
      action: 'approve',
      event_hash: `sha256:${'4f'.repeat(32)}`,
      evidence_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
      decided_by: 'alice',
      votes_missing: 0,
      effective_digest: `sha256:${'3e'.repeat(32)}`,
      grant_expires_at: '2026-11-20T11:10:00.000Z',
    },
  },
  errors: [
    'args.schema_invalid',
    'approval.not_found',
    'approval.transition_invalid',
    'approval.precondition_unmet',
    'approval.self_decision',
    'approval.role_insufficient',
    'approval.already_voted',
  ],
});

export const expireApprovals = operation({
  id: 'expireApprovals',
  method: 'POST',
  path: '/v1/approvals/expire',
  tag: 'Approvals',
  summary: 'Expire every approval past its window',
  auth: 'bearer',
  permission: 'approval.decide',
  budget: 'control',
  success: {
    status: 200,
    description: 'How many were expired by this call.',
    schema: z.object({ expired: z.number().int(), count: z.number().int() }),
    example: { expired: 2, count: 2 },
  },
  errors: [],
});
