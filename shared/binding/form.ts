import { GatewayError } from '../errors/gateway-error.ts';

// Printable ASCII except `#`; all other characters must be percent-encoded.
const sentForm = /^[!"$-~]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are refused
const control = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * Parses a query or form body (`application/x-www-form-urlencoded`). Decodes each name and value
 * exactly once, in the order sent; names may repeat. Refuses malformed escapes, invalid UTF-8, and
 * names that are empty or contain control characters.
 */
export function parseForm(text: string): [string, string][] {
  if (!sentForm.test(text)) throw malformed();
  const entries: [string, string][] = [];
  for (const part of text.split('&')) {
    if (part === '') continue;
    const mark = part.indexOf('=');
    const name = decode(mark < 0 ? part : part.slice(0, mark));
    refuseName(name);
    entries.push([name, mark < 0 ? '' : decode(part.slice(mark + 1))]);
  }
  return entries;
}

/**
 * The canonical form in which names and values are sent: UTF-8, percent-encoded, space as `%20`.
 */
export function writeForm(entries: readonly (readonly [string, string])[]): string {
  return entries
    .map(([name, value]) => {
      refuseName(name);
      return `${encode(name)}=${encode(value)}`;
    })
    .join('&');
}

function refuseName(name: string): void {
  if (name === '' || control.test(name)) throw malformed();
}

function decode(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (cause) {
    throw malformed(cause);
  }
}

function encode(text: string): string {
  if (!text.isWellFormed()) throw malformed();
  return encodeURIComponent(text);
}

function malformed(cause?: unknown): GatewayError {
  return new GatewayError('args.encoding_invalid', {
    message: 'The query or form is not percent-encoded UTF-8 with a name for every value.',
    cause,
  });
}
