import type { PassportState } from '../passport/passport-state.ts';
import type { PolicySet } from '../policy/engine/policy-set.ts';
import type { ToolUsage } from '../usage/tool-usage.ts';
import type { Environment, Mode } from '../vocabulary/action.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { ToolRecord } from '../vocabulary/tool-record.ts';

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
