import { personsOf } from '../../shared/approval/persons.ts';
import type { Action, RiskTier } from '../../shared/vocabulary/action.ts';
import type { ApprovalTerms } from '../../shared/vocabulary/verdict.ts';
import type { Caller } from '../platform/access/caller.ts';

export interface ApprovalRequest {
  readonly action: Action;
  readonly actionDigest: string;
  readonly terms: ApprovalTerms;
  readonly riskTier: RiskTier;
  readonly reasonCode: string;
  readonly summary: string;
  readonly matchedRules: readonly string[];
  readonly policyHash?: string | undefined;
  readonly manifestHash?: string | undefined;
  /** Whoever asks, and whoever counts as the same person: none of them decides on it. */
  readonly requestedBy: readonly string[];
  /** The sidecar that waits for it. */
  readonly sidecarId?: string | undefined;
  /** When the passport that came with the action was issued to its user, in ms since the epoch. */
  readonly authenticatedAtMs?: number | undefined;
}

/** Keys of these roles are a machine's: it asks for itself, and not for who made its key. */
const machines: readonly string[] = ['agent', 'gateway', 'sidecar'];

/**
 * Who asks by a request of this caller: none of them may decide on it. A key of a person's role counts as
 * whoever made it, too; an agent's key does not, for else an owner could decide on none of their agents.
 */
export function requestersOf(caller: Caller): readonly string[] {
  const isMachine = machines.includes(caller.role) || caller.agentId !== undefined;
  return isMachine ? [caller.principal] : personsOf(caller);
}
