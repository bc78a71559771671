/**
 * A text that an agent chose, as every reader of evidence takes it: U+0000 and halves of
 * surrogate pairs are replaced, for one record that is refused holds up all that follow it.
 */
export function recordableText(text: string): string {
  return text.replaceAll('\0', '\u{FFFD}').toWellFormed();
}
