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
  /** Principals that count as the requester and may not decide. */
  readonly requestedBy: readonly string[];
  /** Sidecar that waits for the decision. */
  readonly sidecarId?: string | undefined;
  /** Issue time of the user's passport in the request, in ms since the epoch. */
  readonly authenticatedAtMs?: number | undefined;
}

/**
 * Roles of machines. A machine's request does not count as a request of the person who created the
 * machine's key.
 */
const machines: readonly string[] = ['agent', 'gateway', 'sidecar'];

/**
 * Returns the principals that may not decide on a request of this caller. For a person's key, they
 * include the creator of the key. For a machine's key, they do not, so that owners can decide for
 * their agents.
 */
export function requestersOf(caller: Caller): readonly string[] {
  const isMachine = machines.includes(caller.role) || caller.agentId !== undefined;
  return isMachine ? [caller.principal] : personsOf(caller);
}
