import { actionDigest } from '../../shared/approval/action-digest.ts';
import type { Action, RiskTier } from '../../shared/decision/action.ts';
import type { ApprovalTerms } from '../../shared/decision/verdict.ts';
import { GatewayError } from '../../shared/errors.ts';
import { proofOf } from '../approvals/approval-proof.ts';
import { openApproval } from '../approvals/open-approval.ts';
import { settleEventHashes } from '../approvals/settle-event-hashes.ts';
import { spendApproval } from '../approvals/spend-approval.ts';
import type { Caller } from '../http/route.ts';
import { userPresence } from '../passports/user-presence.ts';
import type { Services } from '../services.ts';
import type { Approval, Sidecar } from '../store/generated/client.ts';
import { assertAgent } from './enrolment-token.ts';
import { ownSidecar } from './fleet.ts';

interface SidecarApprovalRequest {
  readonly action: Pick<Action, 'tool' | 'resource' | 'args' | 'mcp' | 'goal'>;
  /** The user of the passport that the agent presented, when not the enrolment's. */
  readonly userId?: string | undefined;
  readonly passportJti?: string | undefined;
  readonly reasonCode: string;
  readonly matchedRules: readonly string[];
  readonly policyHash?: string | undefined;
  readonly manifestHash?: string | undefined;
  readonly riskTier: RiskTier;
  readonly terms: ApprovalTerms;
  /** As the sidecar computed it; computed again here, over the sidecar's own agent and user. */
  readonly actionDigest: string;
}

/** Asks a human about an action of the sidecar's own agent. */
export async function openSidecarApproval(
  services: Services,
  caller: Caller,
  request: SidecarApprovalRequest,
): Promise<Approval> {
  const sidecar = await ownSidecar(services, caller);
  await assertAgent(services, services.db, sidecar.tenantId, sidecar.agentId);
  const { userId, authenticatedAtMs } = await userOf(services, sidecar, request);
  const { tenantId, agentId } = sidecar;
  const action: Action = { ...request.action, tenantId, agentId, userId };
  const { manifestHash } = request;
  assertDigest(action, { manifestHash, claimed: request.actionDigest });
  return openApproval(services, {
    action,
    actionDigest: request.actionDigest,
    terms: request.terms,
    riskTier: request.riskTier,
    reasonCode: request.reasonCode,
    summary: `The agent asks to call ${action.tool} on ${action.resource}.`,
    matchedRules: request.matchedRules,
    policyHash: request.policyHash,
    manifestHash,
    sidecarId: sidecar.id,
    authenticatedAtMs,
  });
}

/**
 * Whom the agent acts for: the enrolment's user, or the one whose passport it presented. Only
 * such a passport also says when that user was last there.
 */
async function userOf(
  services: Services,
  sidecar: Sidecar,
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
 * Uses up a grant of the sidecar's own, right before it performs the action. What the ledger
 * says of the decision counts, not what the row says.
 */
export async function spendSidecarApproval(
  services: Services,
  caller: Caller,
  id: number,
): Promise<{ readonly eventHash: string }> {
  const sidecar = await ownSidecar(services, caller);
  const { tenantId } = sidecar;
  await assertAgent(services, services.db, tenantId, sidecar.agentId);
  await settleEventHashes(services, tenantId);
  const approval = await services.db.approval.findUnique({
    where: { tenantId_id: { tenantId, id } },
  });
  if (approval === null || !isFor(sidecar, approval)) throw new GatewayError('approval.not_found');
  const eventHash = await assertGranted(services, approval);
  const usedBy = `sidecar:${sidecar.id}`;
  if (!(await spendApproval(services, tenantId, { approvalId: id, eventHash, usedBy }))) {
    throw new GatewayError('approval.used');
  }
  return { eventHash };
}

/** A standing grant is good at every sidecar of its agent, any other where it was asked for. */
function isFor(sidecar: Sidecar, { sidecarId, agentId, grantScope }: Approval): boolean {
  return grantScope === null ? sidecarId === sidecar.id : agentId === sidecar.agentId;
}

async function assertGranted(services: Services, approval: Approval): Promise<string> {
  if (approval.status === 'expired') throw new GatewayError('approval.expired');
  const { db, clock, guard } = services;
  guard.assert('approval', approval);
  const proof = await proofOf(services, db, approval);
  if (proof?.granted !== true) throw new GatewayError('approval.invalid');
  if (proof.revoked === true) throw new GatewayError('approval.grant_revoked');
  if (proof.used) throw new GatewayError('approval.used');
  if (proof.expiresAtMs <= clock.now()) throw new GatewayError('approval.expired');
  return proof.eventHash;
}
