// Lists are read by spreadsheets and browsers, and agents choose some of the texts in them.

/** A spreadsheet takes a cell that begins so for a formula. */
const formula = /^[=+\-@\t\r\n＝＋－＠]/;

/** A cell as RFC 4180 has it, which no spreadsheet computes. */
export function csvCell(text: string): string {
  const inert = formula.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

/** Whatever Markdown or HTML would make of a text, it stays in its cell. */
export function markdownText(text: string): string {
  return text
    .replaceAll(/\p{C}|[\u2028\u2029]/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[\\`*_[\]|~#!>]/g, '\\$&');
}
