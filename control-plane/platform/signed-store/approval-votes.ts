import type { RowGuard } from '../integrity/row-guard.ts';
import { signRow } from '../integrity/sign-row.ts';
import type { ApprovalVote, Prisma } from '../store/generated/client.ts';
import type { SignedRow } from '../store/signed-columns.ts';
import type { Transaction } from '../store/transaction.ts';
import { claimsOf, type Unverified, unverified, type Verified, verifyRow } from './verified.ts';

/** What a vote was for. Only the ledger stores it; the signature binds the vote to it. */
type VotedFor = Pick<SignedRow<'approval_vote'>, 'effectiveDigest' | 'grantAsked'>;

/** Stores a vote, signed with what it was for. */
export async function createVote(
  tx: Pick<Transaction, 'approvalVote' | '$executeRaw'>,
  guard: RowGuard,
  { data, votedFor }: { readonly data: NewVote; readonly votedFor: VotedFor },
): Promise<void> {
  const vote = await tx.approvalVote.create({ data });
  await signRow(tx, { guard }, 'approval_vote', { ...vote, ...votedFor });
}

type NewVote = Prisma.ApprovalVoteUncheckedCreateInput;

/** A vote, verified with what the ledger says that it was for; throws for a forged one. */
export function verifyVote(
  guard: RowGuard,
  vote: Unverified<ApprovalVote>,
  votedFor: VotedFor,
): Verified<ApprovalVote & VotedFor> {
  return verifyRow(guard, 'approval_vote', unverified({ ...claimsOf(vote), ...votedFor }));
}
