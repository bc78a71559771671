import { z } from 'zod';
import { approvalActions, approvalStates } from '../vocabulary/approval-states.ts';
import { grantBounds, grantScopes } from '../vocabulary/grant-terms.ts';
import { jsonObject, riskTier, rowIdParam, text } from './base/fields.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { integerId, pageLimit } from './base/schemas.ts';

const vote = z.object({
  principal: z.string(),
  role: z.string(),
  action: z.string(),
  source: z.string(),
  comment: z.string().optional(),
  voted_at: z.string(),
});
named('ApprovalVote', vote);

const grantRecord = z.object({
  /**
   * True if the grant has more than one use, or covers calls with arguments other than the approved
   * ones.
   */
  standing: z.boolean(),
  scope: z.enum(grantScopes),
  uses: z.number().int(),
  uses_spent: z.number().int(),
  expires_at: z.string(),
  revoked_at: z.string().optional(),
  revoked_by: z.string().optional(),
});
named('ApprovalGrant', grantRecord);

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
  /** The requested arguments; only for callers who may decide. */
  proposed_args: jsonObject.optional(),
  /** Members of the MCP message other than its arguments, if any. */
  proposed_mcp: jsonObject.optional(),
  /** The arguments to perform after `modify`; only for callers who may decide. */
  effective_args: jsonObject.optional(),
  /**
   * Principals that requested the approval, and the creators of their keys. None of these may
   * decide.
   */
  requested_by: z.array(z.string()),
  requested_at: z.string(),
  expires_at: z.string(),
  escalated_by: z.string().optional(),
  decided_by: z.string().optional(),
  decided_at: z.string().optional(),
  comment: z.string().optional(),
  event_hash: z.string().optional(),
  grant_expires_at: z.string().optional(),
  /** When the grant, or its last use, was consumed. */
  used_at: z.string().optional(),
  /**
   * Limits of a standing grant, set by the rules that require the approval. Absent: a single call
   * only.
   */
  grant_limits: z
    .object({
      max_uses: z.number().int(),
      max_ttl_seconds: z.number().int(),
      scope: z.enum(grantScopes),
    })
    .optional(),
  /** The grant, and how many of its uses are consumed. */
  grant: grantRecord.optional(),
  votes: z.array(vote),
});
named('Approval', approvalRecord);
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
  requested_by: ['service-account:sa_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d'],
  requested_at: '2026-11-20T10:00:00.000Z',
  expires_at: '2026-11-20T11:00:00.000Z',
  votes: [],
} as const;

export const listApprovals = operation({
  id: 'listApprovals',
  method: 'GET',
  path: '/v1/approvals',
  tag: 'Approvals',
  summary: 'List approvals, newest first',
  auth: 'bearer',
  permission: 'read',
  // A separate request budget, so that polling dashboards and busy agents do not block deciders.
  budgetPerMinute: 600,
  query: z.object({
    status: z.enum(approvalStates).optional(),
    kind: z.enum(['action', 'tool']).optional(),
    agent_id: text(64).optional(),
    limit: pageLimit,
    /** `next_cursor` of the previous page. */
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
    'The decider is the principal of the API key. Requesters cannot decide their own requests. A closed approval accepts no further decision.',
  auth: 'bearer',
  permission: 'approval.decide',
  budget: 'control',
  params: rowIdParam,
  body: z.strictObject({
    action: z.enum(approvalActions),
    comment: text(4000).optional(),
    /** For `modify`: the arguments to perform instead. */
    modified_args: jsonObject.optional(),
    /**
     * For `approve`: requests a standing grant, within the limits of the rules. Without `uses`, the
     * grant has one use, or the rules' maximum if `ttl_seconds` is given.
     */
    grant: z
      .strictObject({
        uses: z.number().int().min(1).max(grantBounds.usesMax).optional(),
        ttl_seconds: z
          .number()
          .int()
          .min(grantBounds.ttlSecondsMin)
          .max(grantBounds.ttlSecondsMax)
          .optional(),
        scope: z.enum(grantScopes).optional(),
      })
      .optional(),
  }),
  bodyExample: { action: 'approve', comment: 'Parcel was damaged, see ticket 77' },
  success: {
    status: 200,
    description:
      'The new status, and the hash of the ledger event that records decider and action.',
    schema: z.object({
      id: z.number().int(),
      status: z.enum(approvalStates),
      action: z.enum(approvalActions),
      event_hash: z.string(),
      evidence_id: z.string(),
      decided_by: z.string(),
      /** Number of votes still missing for the quorum. */
      votes_missing: z.number().int(),
      effective_digest: z.string().optional(),
      grant_expires_at: z.string().optional(),
      grant: grantRecord.optional(),
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
    'approval.grant_refused',
  ],
});

export const getApproval = operation({
  id: 'getApproval',
  method: 'GET',
  path: '/v1/approvals/{id}',
  tag: 'Approvals',
  summary: 'Get an approval; callers who may decide also get its arguments',
  auth: 'bearer',
  permission: 'read',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'The approval.',
    schema: approvalRecord,
    example: recordExample,
  },
  errors: ['approval.not_found'],
});

export const revokeGrant = operation({
  id: 'revokeGrant',
  method: 'DELETE',
  path: '/v1/approvals/{id}/grant',
  tag: 'Approvals',
  summary: 'Revoke the remaining uses of a grant',
  description:
    'After the response, no further use can be consumed, at any sidecar. Repeating the request changes nothing.',
  auth: 'bearer',
  permission: 'approval.decide',
  budget: 'control',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'The grant is revoked.',
    schema: z.object({
      id: z.number().int(),
      revoked: z.literal(true),
      revoked_at: z.string(),
      uses_spent: z.number().int(),
    }),
    example: { id: 42, revoked: true, revoked_at: '2026-11-20T10:30:00.000Z', uses_spent: 3 },
  },
  errors: ['approval.not_found', 'approval.transition_invalid'],
});

export const expireApprovals = operation({
  id: 'expireApprovals',
  method: 'POST',
  path: '/v1/approvals/expire',
  tag: 'Approvals',
  summary: 'Expire approvals past their window',
  auth: 'bearer',
  permission: 'approval.decide',
  budget: 'control',
  success: {
    status: 200,
    description: 'The number of approvals that this call expired.',
    schema: z.object({ expired: z.number().int(), count: z.number().int() }),
    example: { expired: 2, count: 2 },
  },
  errors: [],
});
