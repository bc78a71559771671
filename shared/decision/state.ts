import type { Deciders } from '../approval/deciders.ts';
import type { StandingGrant } from '../approval/grant-terms.ts';
import type { ToolRecord } from '../manifest/tool-record.ts';
import type { PassportClaims } from '../passport/claims.ts';
import type { PolicySet } from '../policy/policy-set.ts';
import type { ToolUsage } from '../usage/tool-usage.ts';
import type { Environment, Mode } from './action.ts';

export interface KillSwitch {
  readonly id: string;
  readonly kind: 'block_tool' | 'block_agent' | 'force_mode';
  /** Tool id or glob; for `block_tool`, and optionally to narrow `force_mode`. */
  readonly tool?: string | undefined;
  readonly agentId?: string | undefined;
  readonly mode?: Mode | undefined;
  readonly reason: string;
  readonly expiresAtMs?: number | undefined;
}

export interface AgentRecord {
  readonly id: string;
  readonly name: string;
  readonly goal?: string | undefined;
  readonly capabilities: readonly string[];
}

export interface DirectoryUser {
  readonly id: string;
  readonly email?: string | undefined;
  readonly role?: string | undefined;
}

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

/** All that a decision depends on besides the action and the time. */
export interface DecisionState {
  /** At `enforcement` a request may only tighten the tenant's mode. */
  readonly point: 'preflight' | 'enforcement';
  /** What a passport's `aud` must contain, when the action names no audience. */
  readonly audience: string;
  readonly tenant: { readonly id: string; readonly name: string; readonly mode: Mode };
  readonly environment: Environment;
  readonly killSwitches: readonly KillSwitch[];
  readonly agent?: AgentRecord | undefined;
  /** The agent is registered, and an operator disabled it. */
  readonly agentDisabled?: boolean | undefined;
  readonly user?: DirectoryUser | undefined;
  readonly tool?: ToolRecord | undefined;
  readonly passport?: PassportState | undefined;
  /** A standing grant that may answer for a human, when the passport is bound to no approval. */
  readonly grant?: ApprovalProof | undefined;
  readonly policies: PolicySet;
  /** What the agent did with the tool until now; undefined: it cannot be known, or no policy asks. */
  readonly usage?: ToolUsage | undefined;
}
