/** Replaces characters that could control the terminal with `?`. */
export function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, '?');
}

/** Prints lines of text from policies, files and the server. */
export function printLines(lines: readonly string[]): void {
  console.log(lines.map(printable).join('\n'));
}

/** Prints JSON. Escapes characters that could control the terminal. */
export function printJson(value: unknown): void {
  console.log(JSON.stringify(value, null, 2).replaceAll(/[^\n\P{C}]/gu, escaped));
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, at) => {
    return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }).join('');
}

/** Formats a number with its noun: `1 policy`, `2 policies`. */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** A table whose columns are as wide as their widest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(printable));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Formats the time that has passed since `iso`, such as `5 min ago`. */
export function ago(iso: string | undefined, nowMs: number): string {
  return iso === undefined ? 'never' : `${timeSpan(Math.max(0, nowMs - Date.parse(iso)))} ago`;
}

/** Formats milliseconds in the largest unit that fits, such as `5 min`. */
export function timeSpan(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  for (const [unit, unitMs, nextMs] of [
    ['s', 1_000, 60_000],
    ['min', 60_000, 3_600_000],
    ['h', 3_600_000, 86_400_000],
  ] as const) {
    if (ms < nextMs) return `${Math.floor(ms / unitMs)} ${unit}`;
  }
  return `${Math.floor(ms / 86_400_000)} d`;
}
