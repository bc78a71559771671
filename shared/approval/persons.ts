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
  const names = new Set(one.map(foldName));
  return other.some((name) => names.has(foldName(name)));
}

const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}]/gu;

/** Names of people differ in case, white space and what no eye sees more often than people do. */
export function foldName(name: string): string {
  return name.normalize('NFKC').replaceAll(invisible, '').trim().toLowerCase();
}
