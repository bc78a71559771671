const ignorable = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}]/gu;

/**
 * Returns the form in which principals and users are compared: NFKC, without control and format
 * characters, with single spaces as white space, case-folded. Names with equal forms denote one
 * person.
 */
export function foldPrincipal(name: string): string {
  const compatible = name.normalize('NFKC').replaceAll(ignorable, '');
  // Converts to lower case first. U+1E9E (capital ß) then becomes ß, whose upper case is SS.
  // Without this step, the conversion to upper case would keep U+1E9E.
  const folded = compatible.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');
  return folded.replaceAll(/\s+/gu, ' ').trim();
}

/**
 * Returns the reason why a new name is refused (it could look like another name), or undefined. A
 * new name must be in NFKC, without control and format characters, and with single inner spaces as
 * its only white space.
 */
export function nameProblem(name: string): string | undefined {
  if (!name.isWellFormed() || name.search(ignorable) !== -1) {
    return 'must not contain control, format or invisible characters';
  }
  if (/[^\S ]/u.test(name) || name.includes('  ') || name !== name.trim()) {
    return 'must not contain white space other than single spaces between words';
  }
  return name === name.normalize('NFKC') ? undefined : 'must be written in Unicode form NFKC';
}
