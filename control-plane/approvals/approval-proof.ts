import { z } from 'zod';
import { grantScopes, type StandingGrant } from '../../shared/approval/grant-terms.ts';
import type { ApprovalProof } from '../../shared/decision/state.ts';
import type { Transaction } from '../services.ts';
import type { Approval } from '../store/generated/client.ts';

/** What the ledger says in an `approval.decided` event; written by decide-approval.ts. */
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

interface LedgerRow {
  readonly id: number;
  readonly used: boolean;
  readonly revoked: boolean;
  /** The canonical text of the ledger row that the approval's hash names. */
  readonly canonical: string;
}

/**
 * What an approval's hash proves, read from the ledger and not from the approval's row: who can
 * write to the approvals table alone cannot grant anything by it. Undefined: it proves nothing.
 */
export function approvalProof(eventHash: string, row: LedgerRow): ApprovalProof | undefined {
  const parsed = decidedEvent.safeParse(JSON.parse(row.canonical));
  if (!parsed.success || parsed.data.data.approval_id !== row.id) return undefined;
  const { status, effective_digest, grant_expires_at } = parsed.data.data;
  const granted = status === 'approved' || status === 'modified';
  if (granted && (effective_digest === undefined || grant_expires_at === undefined)) {
    return undefined;
  }
  return {
    approvalId: row.id,
    eventHash,
    actionDigest: effective_digest ?? '',
    granted,
    used: row.used,
    revoked: row.revoked,
    standing: standingOf(parsed.data),
    expiresAtMs: grant_expires_at === undefined ? 0 : Date.parse(grant_expires_at),
  };
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

/** The proof of a stored approval, from the ledger row that its own hash names. */
export async function proofOf(
  db: Pick<Transaction, 'evidenceRow'>,
  approval: Approval,
): Promise<ApprovalProof | undefined> {
  const { tenantId, id, eventId, eventHash, usedAt, grantRevokedAt } = approval;
  if (eventId === null || eventHash === null) return undefined;
  const row = await db.evidenceRow.findFirst({ where: { tenantId, eventId, eventHash } });
  if (row === null) return undefined;
  const { canonical } = row;
  const [used, revoked] = [usedAt !== null, grantRevokedAt !== null];
  return approvalProof(eventHash, { id, used, revoked, canonical });
}
