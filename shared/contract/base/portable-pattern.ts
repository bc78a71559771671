const classes: Readonly<Record<string, string>> = { d: '0-9', w: 'A-Za-z0-9_' };

/**
 * The same pattern for readers of JSON Schema whose `\d` and `\w` match more than ASCII, as those
 * of Python do: the ranges are written out.
 */
export function portablePattern(pattern: string): string {
  let written = '';
  let isInClass = false;
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern.charAt(at);
    if (char === '\\') {
      const range = classes[pattern.charAt(++at)];
      if (range === undefined) written += `\\${pattern.charAt(at)}`;
      else written += isInClass ? range : `[${range}]`;
      continue;
    }
    if (char === '[') isInClass = true;
    else if (char === ']') isInClass = false;
    written += char;
  }
  return written;
}
