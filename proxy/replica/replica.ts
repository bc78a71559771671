import type { Clock } from '../../shared/base/clock.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import type { AgentRecord, DirectoryUser, KillSwitch } from '../../shared/decision/state.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import type { PolicySet } from '../../shared/policy/engine/policy-set.ts';
import type {
  DeliveredApproval,
  PublishedTool,
  SectionBodies,
  SectionName,
} from '../../shared/sync/sections.ts';
import type { AskedDeciders } from '../../shared/vocabulary/deciders.ts';
import type { ToolRecord } from '../../shared/vocabulary/tool-record.ts';
import type { Age } from './freshness.ts';
import type { LeaseLeft } from './lease-book.ts';

/** The reason code of a revocation. */
export type Revocation = 'sidecar.revoked' | 'agent.disabled';

export type SignedPassport = Extract<PassportState, { readonly form: 'signed' }>;

/**
 * The tenant's state as this sidecar holds it, in memory. Until every section has been verified for
 * the first time, reading throws `sync.no_snapshot`.
 */
export interface Replica {
  /**
   * Throws if no call may be decided with this state: `sync.no_snapshot`, `sidecar.revoked`, or
   * `policy.update_required` if the state is too old (in modes `enforce` and `strict`).
   */
  assertFresh(): void;
  freshness(): Age;
  /** Versions of the sections held, by name. */
  versions(): Readonly<Record<string, number>>;
  /** Number of sections and heartbeats that were refused since the start. */
  readonly refused: number;

  readonly tenant: SectionBodies['tenant'];
  readonly policies: PolicySet;
  readonly bindings: readonly Binding[];
  readonly killSwitches: readonly KillSwitch[];
  readonly passportKeys: VerificationKeys;
  /** Changes when credentials must be fetched again. */
  readonly credentialsVersion: string;
  agent(id: string): AgentRecord | undefined;
  user(id: string): DirectoryUser | undefined;
  tool(name: string): ToolRecord | undefined;
  /** The tool as it was published. */
  publishedTool(name: string): PublishedTool | undefined;
  /** Names of the tools whose approved form, without the name, has this hash. */
  toolsOfForm(formHash: string): readonly string[];
  /** Hash of a tool's approved surface, which is the form that `tools/list` may show. */
  approvedSurface(name: string): string | undefined;

  /** The next single-use passport of the lease; undefined if none is available. */
  nextUse(): SignedPassport | undefined;
  /** True if the lease can supply a passport. */
  readonly hasLease: boolean;
  /** The remaining uses and time of the lease. */
  leaseLeft(): LeaseLeft;
  /** True if this jti, or the whole sidecar, was revoked. */
  isRevoked(jti: string): boolean;
  /**
   * The reason why this sidecar refuses every call by this agent (the agent was disabled, or the
   * sidecar revoked); otherwise undefined.
   */
  revocationOf(agentId: string): Revocation | undefined;
  /**
   * The human decision on the action with this digest, if a decision is still valid. If `terms` are
   * given, a grant is valid only if its deciders satisfy them.
   */
  approvalFor(actionDigest: string, terms?: AskedDeciders): DeliveredApproval | undefined;
  /**
   * The standing grants that may cover an action of this user on this tool, the most specific
   * first.
   */
  standingGrantsFor(
    who: { readonly userId: string; readonly tool: string },
    actionDigest: string,
  ): readonly DeliveredApproval[];
  approvalById(id: number): DeliveredApproval | undefined;
  approvalByHash(eventHash: string): DeliveredApproval | undefined;

  /**
   * A clock based on the publisher's heartbeats, so that this machine's clock cannot change a
   * decision.
   */
  readonly clock: Clock;
  /** Trusts only these section keys from then on, and loads all sections again. */
  trust(keys: VerificationKeys): void;
  /**
   * Calls `listener` whenever a section or heartbeat was refused because no trusted key signed it.
   */
  onUnknownSigner(listener: () => void): void;
  /**
   * Calls `listener` after each change of a section; returns a function that removes the listener.
   */
  onChange(section: SectionName, listener: () => void): () => void;
  close(): Promise<void>;
}
