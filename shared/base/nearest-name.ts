/**
 * The known name with the smallest edit distance, for "did you mean"; undefined if the list is
 * empty.
 */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let nearest: { readonly one: string; readonly edits: number } | undefined;
  for (const one of known) {
    const edits = editDistance(name, one);
    if (nearest === undefined || edits < nearest.edits) nearest = { one, edits };
  }
  return nearest?.one;
}

/** Levenshtein distance. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, substituted));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
