import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
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

/** One page of the tenant's approvals, newest first. Overdue ones are shown as expired. */
export async function listApprovals(
  services: Services,
  { tenantId }: Caller,
  { status, kind, agent_id, limit, cursor }: ApprovalQuery,
): Promise<{ readonly rows: readonly ApprovalWithVotes[]; readonly nextCursor: string | null }> {
  await expireApprovals(services, tenantId);
  await storeDecisionHashes(services, tenantId);
  const found = await services.db.approval.findMany({
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
  const rows = page.filter((row) => services.guard.holds('approval', row));
  return { rows, nextCursor: last === undefined ? null : String(last.id) };
}

/** One approval with its current status; an overdue one is shown as expired. */
export async function getApproval(
  services: Services,
  { tenantId }: Caller,
  id: number,
): Promise<ApprovalWithVotes> {
  await expireIfOverdue(services, tenantId, id);
  await storeDecisionHashes(services, tenantId);
  const approval = await services.db.approval.findUnique({
    where: { tenantId_id: { tenantId, id } },
    include: { votes: { orderBy: [{ votedAt: 'asc' }, { id: 'asc' }] } },
  });
  if (approval === null) throw new GatewayError('approval.not_found');
  services.guard.assert('approval', approval);
  return approval;
}
