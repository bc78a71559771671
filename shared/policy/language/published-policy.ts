import type { PolicyDefinition } from './definition.ts';

/** A published policy as evaluation reads it. */
export interface PublishedPolicy {
  /** Row id; ties between rules go to the lowest. */
  readonly id: number;
  readonly hash: string;
  readonly definition: PolicyDefinition;
}
