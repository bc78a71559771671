import { foldPrincipal } from '../base/principal.ts';

/**
 * Whom an API key stands for: its own principal, and the principals whose keys led to it. A person
 * who makes another key holds both, so that the two are never two persons.
 */
export interface KeyPersons {
  readonly principal: string;
  readonly mintedBy?: readonly string[] | undefined;
}

export function personsOf({ principal, mintedBy = [] }: KeyPersons): readonly string[] {
  return [principal, ...mintedBy];
}

/** Whether two lists of names have a person in common. */
export function sharePerson(one: readonly string[], other: readonly string[]): boolean {
  const names = new Set(one.map(foldPrincipal));
  return other.some((name) => names.has(foldPrincipal(name)));
}
