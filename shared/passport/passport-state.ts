import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { PassportClaims } from './claims.ts';

/**
 * A passport with everything about it that has to be looked up. Signature and look-ups are
 * done before `decide`; their results are judged inside it, in its order.
 */
export type PassportState =
  | { readonly form: 'malformed' | 'signature_invalid'; readonly detail: string }
  /** A sidecar has no lease that it may use: it acts for nobody right now. */
  | { readonly form: 'no_lease' }
  | {
      readonly form: 'signed';
      readonly claims: PassportClaims;
      /** `lease` numbers are single-use by construction and need no claim on the bus. */
      readonly source: 'presented' | 'lease';
      readonly revoked: boolean;
      /** `unclaimed`: not claimed yet, the verdict will ask for it. */
      readonly use: 'unclaimed' | 'claimed' | 'replayed' | 'unavailable';
      /** Undefined: no approval with that hash is known. */
      readonly approval?: ApprovalProof | undefined;
    };
