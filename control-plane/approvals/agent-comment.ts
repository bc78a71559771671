import type { Services } from '../core/services.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { deliveredMs } from './open-states.ts';

/**
 * The decider's comment for the agent: what more information is needed, or why a recent request was
 * denied. Returns only the redacted text stored for the agent, never the full comment.
 */
export async function agentCommentOn(
  { db, clock, guard }: Pick<Services, 'db' | 'clock' | 'guard'>,
  approval: Approval,
): Promise<string | undefined> {
  if (approval.status === 'context_requested') return approval.agentComment ?? undefined;
  const { tenantId, agentId, actionDigest } = approval;
  const last = await db.approval.findFirst({
    where: {
      ...{ tenantId, agentId, actionDigest, kind: 'action' },
      status: { in: ['approved', 'modified', 'denied'] },
      decidedAt: { gt: new Date(clock.now() - deliveredMs) },
    },
    orderBy: [{ decidedAt: 'desc' }, { id: 'desc' }],
  });
  if (last?.status !== 'denied' || !guard.holds('approval', last)) return undefined;
  return last.agentComment ?? undefined;
}
