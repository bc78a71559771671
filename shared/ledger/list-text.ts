// Lists are opened in spreadsheets and browsers, and agents choose some of the texts in them, so
// these texts are escaped.

/** Spreadsheets treat cells with these first characters as formulas. */
const formula = /^[=+\-@\t\r\n＝＋－＠]/;

/** Formats a cell (RFC 4180) so that no spreadsheet evaluates it. */
export function csvCell(text: string): string {
  const inert = formula.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

/** Escapes text so that Markdown and HTML show it literally in a table cell. */
export function markdownText(text: string): string {
  return text
    .replaceAll(/\p{C}|[\u2028\u2029]/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[\\`*_[\]|~#!>]/g, '\\$&');
}
