/**
 * The kind of text that a glob matches determines the separators: `.` in tool ids, `/` and `:` in
 * resources.
 */
export type GlobKind = 'tool' | 'resource';

export type GlobToken =
  | { readonly kind: 'literal'; readonly char: number }
  /**
   * `segment`: one or more characters except separators. `across`: one or more of any characters.
   */
  | { readonly kind: 'segment' | 'across' };

const star = 0x2a;
export const separators: Readonly<Record<GlobKind, readonly string[]>> = {
  tool: ['.'],
  resource: ['/', ':'],
};

/** True for a glob that matches every text: `*`, or a longer run of stars. */
export function isEverything(pattern: string): boolean {
  return /^\*+$/.test(pattern);
}

export function separatorCodes(kind: GlobKind): readonly number[] {
  return separators[kind].map((separator) => separator.charCodeAt(0));
}

export function tokenise(pattern: string): readonly GlobToken[] {
  const tokens: GlobToken[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern.charCodeAt(at);
    if (char !== star) {
      tokens.push({ kind: 'literal', char });
      continue;
    }
    const start = at;
    while (pattern.charCodeAt(at + 1) === star) at++;
    tokens.push({ kind: at === start ? 'segment' : 'across' });
  }
  return tokens;
}

/** True when the token can consume this character. */
export function accepts(
  token: GlobToken | undefined,
  char: number,
  apart: readonly number[],
): boolean {
  switch (token?.kind) {
    case undefined:
      return false;
    case 'literal':
      return token.char === char;
    case 'segment':
      return !apart.includes(char);
    case 'across':
      return true;
  }
}
