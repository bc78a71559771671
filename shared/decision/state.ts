import type { PassportState } from '../passport/passport-state.ts';
import type { PolicySet } from '../policy/engine/policy-set.ts';
import type { ToolUsage } from '../usage/tool-usage.ts';
import type { Environment, Mode } from '../vocabulary/action.ts';
import type { ApprovalProof } from '../vocabulary/approval-proof.ts';
import type { ToolRecord } from '../vocabulary/tool-record.ts';

export interface KillSwitch {
  readonly id: string;
  readonly kind: 'block_tool' | 'block_agent' | 'force_mode';
  /** Tool id or glob: required for `block_tool`, optional for `force_mode`. */
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

/** All inputs of a decision other than the action and the time. */
export interface DecisionState {
  /** At `enforcement`, a request can only tighten the tenant's mode. */
  readonly point: 'preflight' | 'enforcement';
  /** The value that a passport's `aud` must contain if the action names no audience. */
  readonly audience: string;
  readonly tenant: { readonly id: string; readonly name: string; readonly mode: Mode };
  readonly environment: Environment;
  readonly killSwitches: readonly KillSwitch[];
  readonly agent?: AgentRecord | undefined;
  /** True if the agent is registered and an operator disabled it. */
  readonly agentDisabled?: boolean | undefined;
  readonly user?: DirectoryUser | undefined;
  readonly tool?: ToolRecord | undefined;
  readonly passport?: PassportState | undefined;
  /** A standing grant that may replace a human decision if the passport is bound to no approval. */
  readonly grant?: ApprovalProof | undefined;
  readonly policies: PolicySet;
  /** Past usage of the tool by the agent; undefined if unknown or not needed by any policy. */
  readonly usage?: ToolUsage | undefined;
}
