import type { Services } from '../core/services.ts';
import { enqueue } from '../platform/outbound/enqueue.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';

export type ApprovalNews =
  | 'approval.requested'
  | 'approval.decided'
  | 'approval.expired'
  | 'approval.grant_revoked';

/**
 * Queues a notification in the transaction of the change. The message contains neither arguments
 * nor the agent's goal; deciders read those through the API.
 */
export async function notifyApproval(
  services: Pick<Services, 'vault' | 'clock'>,
  tx: Transaction,
  type: ApprovalNews,
  row: Approval,
): Promise<void> {
  const approval = {
    id: row.id,
    kind: row.kind,
    status: row.status,
    agent_id: row.agentId,
    user_id: row.userId,
    tool: row.tool,
    resource: row.resource,
    risk_tier: row.riskTier,
    reason_code: row.reasonCode,
    summary: row.summary,
    action_digest: row.actionDigest,
    channels: row.channels,
    min_role: row.minRole,
    quorum: row.quorum,
    requested_at: row.requestedAt.toISOString(),
    expires_at: row.expiresAt.toISOString(),
    decided_by: row.decidedBy,
    decided_at: row.decidedAt?.toISOString() ?? null,
    grant_expires_at: row.grantExpiresAt?.toISOString() ?? null,
  };
  const subject = `approval:${row.id}`;
  await enqueue(services, tx, row.tenantId, { type, subject, data: { approval } });
}
