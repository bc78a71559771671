import type { Deciders } from './deciders.ts';
import type { StandingGrant } from './grant-terms.ts';

/** The approval that a passport's `approval_hash` names, as the ledger knows it. */
export interface ApprovalProof {
  readonly approvalId: number;
  readonly eventHash: string;
  readonly actionDigest: string;
  readonly granted: boolean;
  readonly used: boolean;
  readonly expiresAtMs: number;
  readonly revoked?: boolean | undefined;
  /** Who agreed. Undefined: not known, and so never enough for what a rule asks. */
  readonly deciders?: Deciders | undefined;
  /** For a grant that is good for more than one call, or for one on the tool whatever its arguments. */
  readonly standing?: StandingGrant | undefined;
}
