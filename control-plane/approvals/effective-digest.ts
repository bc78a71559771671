import { actionDigest } from '../../shared/approval/action-digest.ts';
import type { JsonObject } from '../../shared/base/json.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { toolRecord } from '../records/tool-record.ts';
import { openProposal } from './approval-args.ts';
import type { ApprovalDecision } from './decision-request.ts';

/**
 * Digest of the action that an approving act covers; undefined if the act does not approve. Throws
 * if the action shown to the decider does not match the recorded digest, because the decider would
 * then approve an action that was not shown.
 */
export async function effectiveDigest(
  services: Pick<Services, 'vault' | 'guard'>,
  tx: Transaction,
  {
    approval,
    decision,
  }: { readonly approval: Verified<Approval>; readonly decision: ApprovalDecision },
): Promise<string | undefined> {
  if (decision.action === 'approve') return shownDigest(services, approval);
  if (decision.action !== 'modify' || decision.modifiedArgs === undefined) return undefined;
  shownDigest(services, approval);
  await assertArgsFitTool(services, tx, approval, decision.modifiedArgs);
  const mcp = openProposal(services, approval)?.mcp;
  return digestWith(approval, { args: decision.modifiedArgs, mcp });
}

function shownDigest(services: Pick<Services, 'vault'>, approval: Verified<Approval>): string {
  const { tenantId, tool, manifestHash, actionDigest: recorded } = approval;
  const shown =
    approval.kind === 'tool'
      ? toolApprovalDigest(tenantId, tool, manifestHash ?? '')
      : digestWith(approval, openProposal(services, approval) ?? { args: {} });
  if (shown === recorded) return recorded;
  throw new GatewayError('approval.invalid', {
    message: 'The stored action of the approval does not match its digest; nothing was decided.',
  });
}

function digestWith(
  approval: Verified<Approval>,
  { args, mcp }: { readonly args: JsonObject; readonly mcp?: JsonObject | undefined },
): string {
  return actionDigest({
    tenant: approval.tenantId,
    agent_id: approval.agentId,
    user_id: approval.userId,
    tool: approval.tool,
    resource: approval.resource,
    args,
    mcp,
    manifest_hash: approval.manifestHash,
  });
}

async function assertArgsFitTool(
  { guard }: Pick<Services, 'guard'>,
  tx: Transaction,
  { tenantId, tool: name }: Verified<Approval>,
  args: JsonObject,
): Promise<void> {
  const tools = signedRows({ db: tx, guard }, 'tool');
  const tool = await tools.findUnique({ where: { tenantId_name: { tenantId, name } } });
  if (tool === null) return;
  const version =
    tool.approvedHash === null
      ? null
      : await tx.toolVersion.findUnique({
          where: { tenantId_name_hash: { tenantId, name, hash: tool.approvedHash } },
        });
  const record = toolRecord({ ...tool, approvedManifest: version?.manifest ?? null });
  const problem = record.validateArgs?.(args);
  if (problem === undefined) return;
  throw new GatewayError('args.schema_invalid', { message: `modified_args: ${problem}` });
}

/** Digest of an approval of kind `tool`: binds it to this tenant, tool and version. */
export function toolApprovalDigest(tenantId: string, tool: string, manifestHash: string): string {
  return sha256(canonicalJson({ manifest_hash: manifestHash, tenant: tenantId, tool }));
}
