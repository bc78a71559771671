import { foldPrincipal } from '../base/principal.ts';

/**
 * The persons behind an API key: its principal, and the principals whose keys created it, directly
 * or indirectly. They count as one person, so that nobody can vote twice by creating a second key.
 */
export interface KeyPersons {
  readonly principal: string;
  readonly mintedBy?: readonly string[] | undefined;
}

export function personsOf({ principal, mintedBy = [] }: KeyPersons): readonly string[] {
  return [principal, ...mintedBy];
}

/** True if two lists of names have a person in common. */
export function sharePerson(one: readonly string[], other: readonly string[]): boolean {
  const names = new Set(one.map(foldPrincipal));
  return other.some((name) => names.has(foldPrincipal(name)));
}
