import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { ApprovalWithVotes } from './approval-record.ts';
import { expireIfOverdue } from './expire-approvals.ts';
import { settleEventHashes } from './settle-event-hashes.ts';

/** One approval as it stands now: never shown open past its window. */
export async function getApproval(
  services: Services,
  { tenantId }: Caller,
  id: number,
): Promise<ApprovalWithVotes> {
  await expireIfOverdue(services, tenantId, id);
  await settleEventHashes(services, tenantId);
  const approval = await services.db.approval.findUnique({
    where: { tenantId_id: { tenantId, id } },
    include: { votes: { orderBy: [{ votedAt: 'asc' }, { id: 'asc' }] } },
  });
  if (approval === null) throw new GatewayError('approval.not_found');
  services.guard.assert('approval', approval);
  return approval;
}
