import { z } from 'zod';
import type { ApprovalProof } from '../../shared/decision/state.ts';

/** What the ledger says in an `approval.decided` event; written by decide-approval.ts. */
const decidedEvent = z.object({
  type: z.literal('approval.decided'),
  source: z.literal('control-plane'),
  data: z.object({
    approval_id: z.number(),
    status: z.string(),
    effective_digest: z.string().optional(),
    grant_expires_at: z.iso.datetime().optional(),
  }),
});

interface LedgerRow {
  readonly id: number;
  readonly used: boolean;
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
    expiresAtMs: grant_expires_at === undefined ? 0 : Date.parse(grant_expires_at),
  };
}
