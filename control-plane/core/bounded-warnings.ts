/**
 * Maximum number of listed warnings. If more exist, one further entry states how many were omitted,
 * so the contract allows 21.
 */
export const warningsMax = 20;

/**
 * Returns the `warnings` of a response: the first 20, and the number of further ones. Returns an
 * empty object if there are none.
 */
export function boundedWarnings(texts: readonly string[]): { readonly warnings?: string[] } {
  if (texts.length === 0) return {};
  const more = texts.length - warningsMax;
  const shown = texts.slice(0, warningsMax);
  return { warnings: more <= 0 ? shown : [...shown, `${more} more warnings.`] };
}
