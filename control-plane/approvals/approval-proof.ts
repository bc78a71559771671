import { z } from 'zod';
import type { ApprovalProof } from '../../shared/vocabulary/approval-proof.ts';
import { type Deciders, minimumDeciders } from '../../shared/vocabulary/deciders.ts';
import { grantScopes, type StandingGrant } from '../../shared/vocabulary/grant-terms.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import type { SignedRow } from '../platform/store/signed-columns.ts';
import type { Transaction } from '../platform/store/transaction.ts';

/** Data of an `approval.decided` event; decide-approval.ts writes it. */
const decidedEvent = z.object({
  type: z.literal('approval.decided'),
  source: z.literal('control-plane'),
  agent_id: z.string().optional(),
  user_id: z.string().optional(),
  tool: z.string().optional(),
  data: z.object({
    approval_id: z.number(),
    status: z.string(),
    effective_digest: z.string().optional(),
    grant_expires_at: z.iso.datetime().optional(),
    manifest_hash: z.string().optional(),
    deciders: z.object({ count: z.number().int(), lowest_role: z.string() }).optional(),
    grant: z
      .object({
        min_role: z.string(),
        quorum: z.number().int(),
        scope: z.enum(grantScopes),
        ttl_seconds: z.number().int(),
        uses: z.number().int(),
      })
      .optional(),
  }),
});

type SignedApproval = SignedRow<'approval'>;

interface Named {
  readonly eventHash: string;
  /** Text of the ledger row whose hash is `eventHash`. */
  readonly canonical: string;
}

/**
 * Reads the proof of an approval's decision from its ledger row; undefined if the row proves
 * nothing. The approval's signed row must match the ledger row, so write access to only one of the
 * two tables grants nothing.
 */
export function approvalProof(
  row: Verified<SignedApproval>,
  { eventHash, canonical }: Named,
): ApprovalProof | undefined {
  const parsed = decidedEvent.safeParse(JSON.parse(canonical));
  if (!parsed.success || !isOf(row, parsed.data)) return undefined;
  const { status, effective_digest, grant_expires_at } = parsed.data.data;
  const granted = isGranted(status);
  if (granted && (effective_digest === undefined || grant_expires_at === undefined)) {
    return undefined;
  }
  return {
    approvalId: row.id,
    eventHash,
    actionDigest: effective_digest ?? '',
    granted,
    used: row.usedAt !== null,
    revoked: row.grantRevokedAt !== null,
    deciders: granted ? decidersOf(row) : undefined,
    standing: standingOf(parsed.data),
    expiresAtMs: grant_expires_at === undefined ? 0 : Date.parse(grant_expires_at),
  };
}

/**
 * Returns the lowest role among the deciders who approved, and their number. For an older row
 * without these values, returns the minimum that the row's terms required.
 */
export function decidersOf({
  deciderRole,
  deciderCount,
  minRole,
  quorum,
}: Pick<Approval, 'deciderRole' | 'deciderCount' | 'minRole' | 'quorum'>): Deciders {
  return deciderRole === null || deciderCount === null
    ? minimumDeciders({ minRole, quorum })
    : { role: deciderRole, count: deciderCount };
}

function isGranted(status: string): boolean {
  return status === 'approved' || status === 'modified';
}

/** Returns whether the decision in the ledger matches the decision in the row. */
function isOf(row: SignedApproval, event: z.output<typeof decidedEvent>): boolean {
  const { data } = event;
  if (data.approval_id !== row.id || data.status !== row.status) return false;
  if (!isGranted(data.status)) return true;
  return (
    data.effective_digest === row.effectiveDigest &&
    Date.parse(data.grant_expires_at ?? '') === Number(row.grantExpiresAt) &&
    (data.grant?.uses ?? 1) === row.grantUses &&
    (data.grant?.scope ?? null) === row.grantScope &&
    (data.deciders?.count ?? null) === row.deciderCount &&
    (data.deciders?.lowest_role ?? null) === row.deciderRole &&
    isForSame(row, event)
  );
}

/**
 * Also compares agent, user, tool and grant terms, because the ledger's table can be forged, too.
 */
function isForSame(row: SignedApproval, event: z.output<typeof decidedEvent>): boolean {
  const { grant, manifest_hash } = event.data;
  const isSame =
    (row.kind !== 'action' || event.agent_id === row.agentId) &&
    event.user_id === row.userId &&
    event.tool === row.tool &&
    (manifest_hash ?? null) === row.manifestHash;
  if (!isSame || grant === undefined) return isSame;
  const grantedMs = Number(row.grantExpiresAt) - Number(row.decidedAt);
  return (
    grant.min_role === row.minRole &&
    grant.quorum === row.quorum &&
    grant.ttl_seconds * 1000 === grantedMs
  );
}

function standingOf(event: z.output<typeof decidedEvent>): StandingGrant | undefined {
  const { grant, manifest_hash } = event.data;
  if (grant === undefined) return undefined;
  return {
    uses: grant.uses,
    scope: grant.scope,
    ttlSeconds: grant.ttl_seconds,
    agentId: event.agent_id ?? '',
    userId: event.user_id ?? '',
    tool: event.tool ?? '',
    manifestHash: manifest_hash ?? null,
    minRole: grant.min_role,
    quorum: grant.quorum,
  };
}

/** Returns the proof of a stored approval, from the ledger row with the approval's `eventHash`. */
export async function proofOf(
  db: Pick<Transaction, 'evidenceRow'>,
  approval: Verified<Approval>,
): Promise<ApprovalProof | undefined> {
  const { tenantId, eventId, eventHash } = approval;
  if (eventId === null || eventHash === null) return undefined;
  const row = await db.evidenceRow.findFirst({ where: { tenantId, eventId, eventHash } });
  if (row === null) return undefined;
  return approvalProof(approval, { eventHash, canonical: row.canonical });
}
