import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { PassportClaims } from './claims.ts';

/**
 * A passport with the results of all look-ups. The signature is verified and all look-ups are done
 * before `decide`, which evaluates the results in its own order.
 */
export type PassportState =
  | { readonly form: 'malformed' | 'signature_invalid'; readonly detail: string }
  /** A sidecar has no usable lease, so it cannot act for its agent at the moment. */
  | { readonly form: 'no_lease' }
  | {
      readonly form: 'signed';
      readonly claims: PassportClaims;
      /**
       * `lease`: the sidecar uses each number of its lease only once, so these uses need no claim
       * on the bus.
       */
      readonly source: 'presented' | 'lease';
      readonly revoked: boolean;
      /** `unclaimed`: not claimed yet; the verdict will request the claim. */
      readonly use: 'unclaimed' | 'claimed' | 'replayed' | 'unavailable';
      /** Undefined if no approval with that hash is known. */
      readonly approval?: ApprovalProof | undefined;
    };
