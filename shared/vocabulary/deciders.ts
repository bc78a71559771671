import { requiredRole, roleSuffices } from './roles.ts';

/** The people who approved an action: their lowest role and their number. */
export interface Deciders {
  readonly role: string;
  readonly count: number;
}

/** The deciders that rules require. */
export interface AskedDeciders {
  readonly minRole: string;
  readonly quorum: number;
}

/**
 * True if the deciders satisfy the current requirements of the rules, which can change between a
 * decision and its use. Unknown deciders never satisfy a rule.
 */
export function decidersSuffice(
  deciders: Deciders | undefined,
  { minRole, quorum }: AskedDeciders,
): boolean {
  return deciders !== undefined && roleSuffices(deciders.role, minRole) && deciders.count >= quorum;
}

/**
 * The weakest deciders that satisfy these terms, for a decision whose record contains only its
 * terms.
 */
export function minimumDeciders({ minRole, quorum }: AskedDeciders): Deciders {
  return { role: requiredRole(minRole), count: quorum };
}
