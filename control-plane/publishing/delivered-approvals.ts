import type { SigningKey } from '../../shared/crypto/signing-key.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { signPassport } from '../../shared/passport/issue.ts';
import type { DeliveredApproval } from '../../shared/sync/sections.ts';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import { openEffectiveArgs } from '../approvals/approval-args.ts';
import { approvalProof } from '../approvals/approval-proof.ts';
import { deliveredMs, openStates } from '../approvals/open-states.ts';
import { activeGrantFilter } from '../approvals/standing-grants.ts';
import { grantClaims } from '../passports/sidecar-passports.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import type { Vault } from '../platform/vault/vault.ts';

const decided = ['approved', 'modified', 'denied'] as const;

interface Delivery {
  readonly tx: Transaction;
  readonly guard: RowGuard;
  readonly tenantId: string;
  readonly sidecarId: string;
  /** Also reads the standing grants and denials of this agent; undefined: reads neither. */
  readonly agentId?: string | undefined;
  readonly nowMs: number;
}

/** An approval and its ledger proof. */
export interface ProvenApproval {
  readonly approval: Verified<Approval>;
  readonly proof: ApprovalProof | undefined;
}

/**
 * Returns the approvals that a sidecar waits for or may use: open ones, and recently decided ones.
 */
export async function readApprovals(delivery: Delivery): Promise<readonly ProvenApproval[]> {
  const { tx, guard, tenantId, sidecarId, agentId, nowMs } = delivery;
  const since = new Date(nowMs - deliveredMs);
  // Omits rows that fail their integrity check; the sidecar then asks again.
  const approvals = await signedRows({ db: tx, guard }, 'approval').findValid({
    where: {
      tenantId,
      kind: 'action',
      OR: [
        { sidecarId, status: { in: [...openStates] } },
        { sidecarId, status: { notIn: [...openStates] }, decidedAt: { gt: since } },
        { sidecarId, status: 'expired', decidedAt: null, expiresAt: { gt: since } },
        ...(agentId === undefined
          ? []
          : [
              { agentId, ...activeGrantFilter(nowMs) },
              { agentId, status: 'denied', decidedAt: { gt: since } },
            ]),
      ],
    },
    orderBy: { id: 'asc' },
  });
  const canonical = await readCanonical(tx, tenantId, approvals);
  return approvals.map((approval) => ({
    approval,
    proof: proofOf(approval, canonical),
  }));
}

async function readCanonical(
  tx: Transaction,
  tenantId: string,
  approvals: readonly Verified<Approval>[],
): Promise<ReadonlyMap<string, string>> {
  const hashes = new Map(
    approvals.flatMap(({ eventId, eventHash }) =>
      eventId === null || eventHash === null ? [] : [[eventId, eventHash]],
    ),
  );
  if (hashes.size === 0) return new Map();
  const rows = await tx.evidenceRow.findMany({
    where: { tenantId, eventId: { in: [...hashes.keys()] } },
    select: { eventId: true, eventHash: true, canonical: true },
  });
  return new Map(
    rows
      .filter(({ eventId, eventHash }) => hashes.get(eventId) === eventHash)
      .map(({ eventHash, canonical }) => [eventHash, canonical]),
  );
}

function proofOf(
  approval: Verified<Approval>,
  canonical: ReadonlyMap<string, string>,
): ApprovalProof | undefined {
  const { eventHash } = approval;
  const text = eventHash === null ? undefined : canonical.get(eventHash);
  if (eventHash === null || text === undefined) return undefined;
  return approvalProof(approval, { eventHash, canonical: text });
}

/**
 * Returns the claims of the passport for the grant that an approval proves, or undefined if there
 * is no usable grant.
 */
export function grantOf(
  { approval, proof }: ProvenApproval,
  nowMs: number,
): PassportClaims | undefined {
  const { sidecarId, decidedAt } = approval;
  if (proof === undefined || !proof.granted || proof.used || proof.expiresAtMs <= nowMs) {
    return undefined;
  }
  // A revoked or standing grant has no passport: see `DeliveredApproval.grant`.
  if (proof.revoked === true || proof.standing !== undefined) return undefined;
  if (sidecarId === null || decidedAt === null) return undefined;
  const { eventHash, expiresAtMs } = proof;
  return grantClaims({ ...approval, sidecarId, decidedAt, eventHash, expiresAtMs });
}

interface Granting {
  readonly nowMs: number;
  readonly vault: Vault;
  readonly passportKey: SigningKey;
  /** Jtis of the issued grants. Only these grants are delivered. */
  readonly issued: ReadonlySet<string>;
}

/**
 * Converts an approval to the form that its sidecar receives. Its effect comes from the ledger, not
 * from the row.
 */
export function deliveredApproval(proven: ProvenApproval, granting: Granting): DeliveredApproval {
  const { approval, proof } = proven;
  const { id, actionDigest } = approval;
  const status = statusOf(approval, granting.nowMs);
  const waiting = { id, actionDigest, expiresAtMs: approval.expiresAt.getTime() };
  if (status !== 'approved' && status !== 'modified') {
    return { ...waiting, status, ...commentOf(approval) };
  }
  // The status is pending until the decision is sealed and the passport of the grant is issued.
  if (proof?.granted !== true) return { ...waiting, status: 'pending' };
  if (proof.revoked === true) return { ...waiting, status: 'expired' };
  const { eventHash, expiresAtMs, used, actionDigest: effectiveDigest, standing, deciders } = proof;
  const granted = { id, actionDigest, status, expiresAtMs, eventHash, effectiveDigest, deciders };
  if (used || expiresAtMs <= granting.nowMs) return { ...granted, used };
  if (standing !== undefined) return { ...granted, grant: standing };
  const claims = grantOf(proven, granting.nowMs);
  if (claims === undefined || !granting.issued.has(claims.jti)) {
    return { ...waiting, status: 'pending' };
  }
  const args = status === 'modified' ? openEffectiveArgs(granting, approval) : undefined;
  return {
    ...granted,
    ...(args === undefined ? {} : { effectiveArgs: args }),
    passport: signPassport(claims, granting.passportKey),
  };
}

/** Returns the comment to the agent. No other text that a human wrote is published. */
function commentOf({ status, agentComment }: Approval): { readonly comment?: string } {
  const isTold = status === 'denied' || status === 'context_requested';
  return isTold && agentComment !== null ? { comment: agentComment } : {};
}

function statusOf({ status, expiresAt }: Approval, nowMs: number): DeliveredApproval['status'] {
  if (openStates.some((open) => open === status)) {
    return expiresAt.getTime() > nowMs ? 'pending' : 'expired';
  }
  return decided.find((known) => known === status) ?? 'expired';
}
