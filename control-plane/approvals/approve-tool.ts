import type { ApprovalState } from '../../shared/vocabulary/approval-states.ts';
import type { ChangeNotes } from '../core/commit-change.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

/**
 * Applies the decision on a version of a tool. An approval covers only the manifest hash of this
 * version. A denial has an effect only while this version is the current one.
 */
export async function settleTool(
  tx: Transaction,
  notes: ChangeNotes,
  approval: Verified<Approval>,
  {
    status,
    principal,
    now,
  }: {
    readonly status: ApprovalState;
    readonly principal: string;
    readonly now: Date;
  },
): Promise<void> {
  const { tenantId, tool: name, manifestHash } = approval;
  if (manifestHash === null || (status !== 'approved' && status !== 'denied')) return;
  await lockFor(tx, tenantId, `tool ${name}`);
  const tools = notes.rows('tool');
  const tool = await tools.findExisting({ where: { tenantId_name: { tenantId, name } } });
  const isCurrent = tool.manifestHash === manifestHash;
  if (status === 'denied' && !isCurrent) return;
  const standing = standingAfter(status, { manifestHash, isCurrent });
  await tools.update(tool, { ...standing, updatedAt: now });
  notes.sections('tools');
  await notes.event({
    type: status === 'denied' ? 'tool.rejected' : 'tool.reapproved',
    chainId: `tool:${name}`,
    tool: name,
    data: {
      approval_id: approval.id,
      by: principal,
      current: isCurrent,
      manifest_hash: manifestHash,
    },
  });
}

/**
 * Returns the columns to change. An approved version that is not the current one becomes only the
 * baseline for later versions.
 */
function standingAfter(
  status: 'approved' | 'denied',
  { manifestHash, isCurrent }: { readonly manifestHash: string; readonly isCurrent: boolean },
) {
  if (status === 'denied') return { approvalStatus: 'rejected' };
  const approvedHash = manifestHash;
  return isCurrent
    ? { approvedHash, approvalStatus: 'approved', driftReason: null }
    : { approvedHash };
}
