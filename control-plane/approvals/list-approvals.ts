import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import { expireApprovals, expireIfOverdue } from './expire-approvals.ts';
import { storeDecisionHashes } from './store-decision-hashes.ts';

interface ApprovalQuery {
  readonly status?: ApprovalState | undefined;
  readonly kind?: 'action' | 'tool' | undefined;
  readonly agent_id?: string | undefined;
  readonly limit: number;
  /** Only approvals with a smaller id. */
  readonly cursor?: number | undefined;
}

/** Returns one page of the tenant's approvals, newest first. Shows overdue approvals as expired. */
export async function listApprovals(
  services: Services,
  { tenantId }: Caller,
  { status, kind, agent_id, limit, cursor }: ApprovalQuery,
): Promise<{ readonly rows: readonly ApprovalWithVotes[]; readonly nextCursor: string | null }> {
  await expireApprovals(services, tenantId);
  await storeDecisionHashes(services, tenantId);
  const approvals = signedRows(services, 'approval');
  const found = await approvals.findUnverified({
    where: {
      tenantId,
      ...(status === undefined ? {} : { status }),
      ...(kind === undefined ? {} : { kind }),
      ...(agent_id === undefined ? {} : { agentId: agent_id }),
      ...(cursor === undefined ? {} : { id: { lt: cursor } }),
    },
    include: { votes: { orderBy: { votedAt: 'asc' } } },
    orderBy: { id: 'desc' },
    take: limit + 1,
  });
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  const nextCursor = last === undefined ? null : String(claimsOf(last).id);
  return { rows: approvals.valid(page), nextCursor };
}

/** Returns one approval with its current status. Shows an overdue approval as expired. */
export async function getApproval(
  services: Services,
  { tenantId }: Caller,
  id: number,
): Promise<ApprovalWithVotes> {
  await expireIfOverdue(services, tenantId, id);
  await storeDecisionHashes(services, tenantId);
  const approval = await signedRows(services, 'approval').findUnique({
    where: { tenantId_id: { tenantId, id } },
    include: { votes: { orderBy: [{ votedAt: 'asc' }, { id: 'asc' }] } },
  });
  if (approval === null) throw new GatewayError('approval.not_found');
  return approval;
}
