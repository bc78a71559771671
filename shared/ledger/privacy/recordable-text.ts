/**
 * Replaces U+0000 and lone surrogates in text that an agent chose, because the control plane would
 * refuse the record, and a refused record blocks all later ones of the spool.
 */
export function recordableText(text: string): string {
  return text.replaceAll('\0', '\u{FFFD}').toWellFormed();
}
