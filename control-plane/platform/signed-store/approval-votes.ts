import type { RowGuard } from '../integrity/row-guard.ts';
import { signRow } from '../integrity/sign-row.ts';
import type { ApprovalVote, Prisma } from '../store/generated/client.ts';
import type { SignedRow } from '../store/signed-columns.ts';
import type { Transaction } from '../store/transaction.ts';
import { claimsOf, type Unverified, unverified, type Verified, verifyRow } from './verified.ts';

/**
 * The action and the grant that a vote supports. They are stored only in the ledger, but the vote's
 * signature also covers them.
 */
type VotedFor = Pick<SignedRow<'approval_vote'>, 'effectiveDigest' | 'grantAsked'>;

/** Stores a vote, with a signature that also covers the action and grant. */
export async function createVote(
  tx: Pick<Transaction, 'approvalVote' | '$executeRaw'>,
  guard: RowGuard,
  { data, votedFor }: { readonly data: NewVote; readonly votedFor: VotedFor },
): Promise<void> {
  const vote = await tx.approvalVote.create({ data });
  await signRow(tx, { guard }, 'approval_vote', { ...vote, ...votedFor });
}

type NewVote = Prisma.ApprovalVoteUncheckedCreateInput;

/** Verifies a vote together with its action and grant from the ledger. Throws for a forged vote. */
export function verifyVote(
  guard: RowGuard,
  vote: Unverified<ApprovalVote>,
  votedFor: VotedFor,
): Verified<ApprovalVote & VotedFor> {
  return verifyRow(guard, 'approval_vote', unverified({ ...claimsOf(vote), ...votedFor }));
}
