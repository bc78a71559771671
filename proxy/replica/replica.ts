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

/** As decisions call it. */
export type Revocation = 'sidecar.revoked' | 'agent.disabled';

export type SignedPassport = Extract<PassportState, { readonly form: 'signed' }>;

/**
 * The tenant's state as this sidecar holds it, in memory. Reading the state before all of it was
 * verified once throws `sync.no_snapshot`.
 */
export interface Replica {
  /**
   * Throws when no call may be decided by this state: `sync.no_snapshot`, `sidecar.revoked`, or
   * `policy.update_required` when it is too old (in modes `enforce` and `strict`).
   */
  assertFresh(): void;
  freshness(): Age;
  /** Versions of the sections held, by name. */
  versions(): Readonly<Record<string, number>>;
  /** How many texts on the bus were refused since the start. */
  readonly refused: number;

  readonly tenant: SectionBodies['tenant'];
  readonly policies: PolicySet;
  readonly bindings: readonly Binding[];
  readonly killSwitches: readonly KillSwitch[];
  readonly passportKeys: VerificationKeys;
  /** Moves when credentials changed: time to fetch them again. */
  readonly credentialsVersion: string;
  agent(id: string): AgentRecord | undefined;
  user(id: string): DirectoryUser | undefined;
  tool(name: string): ToolRecord | undefined;
  /** The tool as it was published. */
  publishedTool(name: string): PublishedTool | undefined;
  /** Names of the tools whose approved form, but for the name, has this hash. */
  toolsOfForm(formHash: string): readonly string[];
  /** Hash of what `tools/list` may show of a tool: its approved surface. */
  approvedSurface(name: string): string | undefined;

  /** The next single-use passport of the lease; undefined when none is at hand. */
  nextUse(): SignedPassport | undefined;
  /** Whether there is a lease to take passports from. */
  readonly hasLease: boolean;
  /** The remaining uses and time of the lease. */
  leaseLeft(): LeaseLeft;
  /** True for a jti that was revoked, and for any once this sidecar is. */
  isRevoked(jti: string): boolean;
  /** Why nothing may be done for this agent here: it was disabled, or this sidecar revoked. */
  revocationOf(agentId: string): Revocation | undefined;
  /**
   * The human decision on the action of this digest, if one is still valid. With `terms`, a grant by
   * deciders who do not satisfy them is not valid.
   */
  approvalFor(actionDigest: string, terms?: AskedDeciders): DeliveredApproval | undefined;
  /** The standing grants that may cover an action of this user on this tool, nearest first. */
  standingGrantsFor(
    who: { readonly userId: string; readonly tool: string },
    actionDigest: string,
  ): readonly DeliveredApproval[];
  approvalById(id: number): DeliveredApproval | undefined;
  approvalByHash(eventHash: string): DeliveredApproval | undefined;

  /** Time by the publisher's heartbeats, so that this machine's clock cannot move a decision. */
  readonly clock: Clock;
  /** Trusts other section keys from now on, and loads everything again. */
  trust(keys: VerificationKeys): void;
  /** Calls `listener` whenever a text was refused that no believed key signed. */
  onUnknownSigner(listener: () => void): void;
  /** Calls `listener` after each change of a section; returns how to stop. */
  onChange(section: SectionName, listener: () => void): () => void;
  close(): Promise<void>;
}
