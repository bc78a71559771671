/** Other people's text for a terminal: what would control it is shown as `?`. */
export function visible(text: string): string {
  return text.replaceAll(/\p{C}/gu, '?');
}

/** Columns as wide as their widest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(visible));
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

/** How long ago, in the largest unit that fits. */
export function ago(iso: string | undefined, nowMs: number): string {
  return iso === undefined ? 'never' : `${span(Math.max(0, nowMs - Date.parse(iso)))} ago`;
}

export function span(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  for (const [unit, each, next] of [
    ['s', 1_000, 60_000],
    ['min', 60_000, 3_600_000],
    ['h', 3_600_000, 86_400_000],
  ] as const) {
    if (ms < next) return `${Math.floor(ms / each)} ${unit}`;
  }
  return `${Math.floor(ms / 86_400_000)} d`;
}
