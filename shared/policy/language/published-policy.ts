import type { PolicyDefinition } from './definition.ts';

/** A published policy as the evaluation uses it. */
export interface PublishedPolicy {
  /** Row id; ties between rules go to the policy with the lowest id. */
  readonly id: number;
  readonly hash: string;
  readonly definition: PolicyDefinition;
}
