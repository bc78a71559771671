import { requiredRole, roleSuffices } from './roles.ts';

/** Who agreed to an action: the lowest role among them, and how many persons they were. */
export interface Deciders {
  readonly role: string;
  readonly count: number;
}

/** What rules ask of those who decide. */
export interface AskedDeciders {
  readonly minRole: string;
  readonly quorum: number;
}

/**
 * Whether those who agreed are authority enough for what the rules ask now: policies change
 * between a decision and its use. Deciders who are not known never suffice.
 */
export function decidersSuffice(
  deciders: Deciders | undefined,
  { minRole, quorum }: AskedDeciders,
): boolean {
  return deciders !== undefined && roleSuffices(deciders.role, minRole) && deciders.count >= quorum;
}

/** What deciders satisfied at least, where only the terms that they decided under are on record. */
export function decidersBy({ minRole, quorum }: AskedDeciders): Deciders {
  return { role: requiredRole(minRole), count: quorum };
}
