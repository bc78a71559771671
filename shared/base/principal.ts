const ignorable = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}]/gu;

/**
 * The form in which principals and users are compared: NFKC, without control and format characters,
 * white space as single spaces, case folded. Two names with one form are one person.
 */
export function foldPrincipal(name: string): string {
  const compatible = name.normalize('NFKC').replaceAll(ignorable, '');
  const folded = compatible.toUpperCase().toLowerCase().normalize('NFKC');
  return folded.replaceAll(/\s+/gu, ' ').trim();
}

/**
 * What is wrong with a name that an eye could take for another, if anything. A new name is written
 * in NFKC and holds no control or format characters and no white space but single inner spaces.
 */
export function nameProblem(name: string): string | undefined {
  if (!name.isWellFormed() || name.search(ignorable) !== -1) {
    return 'must not hold control, format or invisible characters';
  }
  if (/[^\S ]/u.test(name) || name.includes('  ') || name !== name.trim()) {
    return 'must hold no white space but single spaces between words';
  }
  return name === name.normalize('NFKC') ? undefined : 'must be written in Unicode form NFKC';
}
