import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { deliveredMs } from './open-states.ts';

/**
 * Returns the decider's comment for the agent: what more information is needed, or why a recent
 * request was denied. The comment is the redacted text that is stored for the agent, never the full
 * one.
 */
export async function agentCommentOn(
  services: Pick<Services, 'db' | 'clock' | 'guard'>,
  approval: Verified<Approval>,
): Promise<string | undefined> {
  if (approval.status === 'context_requested') return approval.agentComment ?? undefined;
  const { tenantId, agentId, actionDigest } = approval;
  const approvals = signedRows(services, 'approval');
  const [last] = await approvals.findUnverified({
    where: {
      tenantId,
      agentId,
      actionDigest,
      kind: 'action',
      status: { in: ['approved', 'modified', 'denied'] },
      decidedAt: { gt: new Date(services.clock.now() - deliveredMs) },
    },
    orderBy: [{ decidedAt: 'desc' }, { id: 'desc' }],
    take: 1,
  });
  if (last === undefined || claimsOf(last).status !== 'denied') return undefined;
  const [denied] = approvals.valid([last]);
  return denied?.agentComment ?? undefined;
}
