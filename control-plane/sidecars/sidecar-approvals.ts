import { actionDigest } from '../../shared/approval/action-digest.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Action, RiskTier } from '../../shared/vocabulary/action.ts';
import { decidersSuffice } from '../../shared/vocabulary/deciders.ts';
import type { ApprovalTerms } from '../../shared/vocabulary/verdict.ts';
import { openEffectiveArgs, openProposal } from '../approvals/approval-args.ts';
import { decidersOf, proofOf } from '../approvals/approval-proof.ts';
import { requestersOf } from '../approvals/approval-request.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { storeDecisionHashes } from '../approvals/store-decision-hashes.ts';
import type { Services } from '../core/services.ts';
import { userPresence } from '../passports/user-presence.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Approval, Sidecar } from '../platform/store/generated/client.ts';
import { assertAgent } from './enrolment-token.ts';
import { ownSidecar } from './fleet.ts';
import { judgeRequestedAction, type OwnJudgement, strictestOf } from './judge-requested-action.ts';

interface SidecarApprovalRequest {
  readonly action: Pick<Action, 'tool' | 'resource' | 'args' | 'mcp' | 'goal'>;
  /** User of the presented passport, if this is not the enrolment's user. */
  readonly userId?: string | undefined;
  readonly passportJti?: string | undefined;
  /** The passport that the agent presented, compact JWS. */
  readonly passport?: string | undefined;
  readonly manifestHash?: string | undefined;
  readonly riskTier: RiskTier;
  readonly terms: ApprovalTerms;
  /**
   * Digest computed by the sidecar; the control plane computes it again for the sidecar's own agent
   * and user.
   */
  readonly actionDigest: string;
}

/**
 * Opens an approval for an action of the sidecar's own agent. Verdict, reason, rules and terms are
 * the control plane's own; the sidecar's terms and risk can only make them stricter.
 */
export async function openSidecarApproval(
  services: Services,
  caller: Caller,
  request: SidecarApprovalRequest,
): Promise<Verified<Approval>> {
  const sidecar = await ownSidecar(services, caller);
  await assertAgent(services, services.db, sidecar.tenantId, sidecar.agentId);
  const { userId, authenticatedAtMs } = await userOf(services, sidecar, request);
  const { tenantId, agentId } = sidecar;
  const action: Action = { ...request.action, tenantId, agentId, userId };
  const { manifestHash, passport } = request;
  assertDigest(action, { manifestHash, claimed: request.actionDigest });
  const own = await judgeRequestedAction(services, { sidecar, action, passport });
  if (own.manifestHash !== manifestHash) throw new GatewayError('tool.manifest_changed');
  const { reasonCode, matchedRules, policyHash } = own.verdict;
  return openApproval(services, {
    action,
    actionDigest: request.actionDigest,
    ...strictestOf(own, request),
    reasonCode,
    summary: summaryOf(action, own),
    matchedRules,
    policyHash,
    manifestHash,
    requestedBy: requestersOf(caller),
    sidecarId: sidecar.id,
    authenticatedAtMs,
  });
}

function summaryOf({ tool, resource }: Action, { terms }: OwnJudgement): string {
  const asked = `The agent asks to call ${tool} on ${resource}.`;
  return terms === undefined
    ? `${asked} Only its sidecar’s policies require an approval; the control plane’s do not.`
    : asked;
}

/**
 * User that the agent acts for: the enrolment's user, or the user of the presented passport. Only a
 * presented passport proves when the user was last present.
 */
async function userOf(
  services: Services,
  sidecar: Verified<Sidecar>,
  { userId = sidecar.userId, passportJti: jti }: SidecarApprovalRequest,
): Promise<{ readonly userId: string; readonly authenticatedAtMs: number | undefined }> {
  const { tenantId, agentId } = sidecar;
  const present =
    jti === undefined
      ? undefined
      : await userPresence(services, { tenantId, agentId, jti, userId });
  if (present !== undefined) return { userId, authenticatedAtMs: present.atMs };
  if (userId === sidecar.userId) return { userId, authenticatedAtMs: undefined };
  throw new GatewayError('approval.invalid', {
    message: 'user_id: the sidecar’s agent holds no passport of that user.',
  });
}

function assertDigest(
  action: Action,
  {
    manifestHash,
    claimed,
  }: { readonly manifestHash: string | undefined; readonly claimed: string },
): void {
  const digest = actionDigest({
    tenant: action.tenantId,
    agent_id: action.agentId,
    user_id: action.userId,
    tool: action.tool,
    resource: action.resource,
    args: action.args,
    mcp: action.mcp,
    manifest_hash: manifestHash ?? null,
  });
  if (digest === claimed) return;
  throw new GatewayError('approval.invalid', {
    message: 'action_digest: is not that of the action, for this sidecar’s agent and user.',
  });
}

/**
 * Consumes a grant right before the sidecar performs the action. The decision in the ledger counts,
 * not the database row.
 */
export async function spendSidecarApproval(
  services: Services,
  caller: Caller,
  id: number,
): Promise<{ readonly eventHash: string }> {
  const sidecar = await ownSidecar(services, caller);
  const { tenantId } = sidecar;
  await assertAgent(services, services.db, tenantId, sidecar.agentId);
  await storeDecisionHashes(services, tenantId);
  const approvals = signedRows(services, 'approval');
  const found = await approvals.findUniqueUnverified({ where: { tenantId_id: { tenantId, id } } });
  if (found === null || !isFor(sidecar, claimsOf(found))) {
    throw new GatewayError('approval.not_found');
  }
  if (claimsOf(found).status === 'expired') throw new GatewayError('approval.expired');
  const approval = approvals.verify(found);
  const eventHash = await assertGranted(services, approval);
  await assertStillEnough(services, sidecar, approval);
  const usedBy = `sidecar:${sidecar.id}`;
  if (!(await consumeApproval(services, tenantId, { approvalId: id, eventHash, usedBy }))) {
    throw new GatewayError('approval.used');
  }
  return { eventHash };
}

/**
 * A standing grant is usable at every sidecar of its agent. Any other grant is usable only at the
 * sidecar that requested it.
 */
function isFor(sidecar: Verified<Sidecar>, { sidecarId, agentId, grantScope }: Approval): boolean {
  return grantScope === null ? sidecarId === sidecar.id : agentId === sidecar.agentId;
}

/**
 * Compares the deciders with the current requirements of the rules. A grant for any arguments has
 * no action to evaluate here, so the sidecar makes the comparison.
 */
async function assertStillEnough(
  services: Services,
  sidecar: Verified<Sidecar>,
  approval: Verified<Approval>,
): Promise<void> {
  if (approval.grantScope === 'tool') return;
  const { tenantId, agentId, userId, tool, resource } = approval;
  const { args: proposed = {}, mcp } = openProposal(services, approval) ?? {};
  const args = openEffectiveArgs(services, approval) ?? proposed;
  const goal = approval.goal ?? undefined;
  const action: Action = { tenantId, agentId, userId, tool, resource, args, mcp, goal };
  const { terms } = await judgeRequestedAction(services, { sidecar, action });
  if (terms === undefined || decidersSuffice(decidersOf(approval), terms)) return;
  throw new GatewayError('approval.invalid', {
    message: 'The rules now ask for a higher role or more deciders than agreed; ask again.',
  });
}

async function assertGranted(
  { db, clock }: Pick<Services, 'db' | 'clock'>,
  approval: Verified<Approval>,
): Promise<string> {
  const proof = await proofOf(db, approval);
  if (proof?.granted !== true) throw new GatewayError('approval.invalid');
  if (proof.revoked === true) throw new GatewayError('approval.grant_revoked');
  if (proof.used) throw new GatewayError('approval.used');
  if (proof.expiresAtMs <= clock.now()) throw new GatewayError('approval.expired');
  return proof.eventHash;
}
