/** With the line that counts the others, the bound of `warnings` in the contract. */
export const warningsMax = 20;

/** The `warnings` of an answer: the first 20, and how many more there are; absent if there is none. */
export function boundedWarnings(texts: readonly string[]): { readonly warnings?: string[] } {
  if (texts.length === 0) return {};
  const more = texts.length - warningsMax;
  const shown = texts.slice(0, warningsMax);
  return { warnings: more <= 0 ? shown : [...shown, `${more} more warnings.`] };
}
