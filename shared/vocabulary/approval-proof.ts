import type { Deciders } from './deciders.ts';
import type { StandingGrant } from './grant-terms.ts';

/** The approval that a passport's `approval_hash` refers to, as the ledger records it. */
export interface ApprovalProof {
  readonly approvalId: number;
  readonly eventHash: string;
  readonly actionDigest: string;
  readonly granted: boolean;
  readonly used: boolean;
  readonly expiresAtMs: number;
  readonly revoked?: boolean | undefined;
  /** The deciders. Undefined means unknown, which satisfies no rule. */
  readonly deciders?: Deciders | undefined;
  /** Present for a grant with more than one use, or for a grant on the tool with any arguments. */
  readonly standing?: StandingGrant | undefined;
}
