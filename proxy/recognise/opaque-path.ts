import { refuseMethodOverride } from '../../shared/binding/method-override.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

const sentForm = /^\/[!"$-[\]-~]*$/;
const queryForm = /^[!"$-~]*$/;
const escaped = /%(..)?/g;
const hex = /^[0-9A-Fa-f]{2}$/;
const unreserved = /^[A-Za-z0-9\-._~]$/;
const separator = /\/|%2F|%5C/;
// Servers that strip `;…` may do so before or after decoding.
const encodedSemicolon = /%3B/;
const encodedTwice = /%25[0-9a-f]{2}/i;
// Characters that Windows code pages map to a slash or backslash ("best fit"), but NFKC does not.
const bestFit = /[\u2044\u2215\u29f8\u2216\u29f5\u29f9\u00a5\u20a9]/;
const separatorLike = /[/\\;%\p{Cc}]/u;

/**
 * Returns the path of a call to a host without bindings in the form that is used as the resource
 * and sent upstream: escapes of unreserved characters are decoded, other escapes are in upper case
 * (RFC 3986, section 6.2.2). Refuses paths that an upstream might resolve differently: with dot
 * segments or empty segments in any encoding, backslashes, `%3B`, control characters, escapes that
 * are not UTF-8, or characters that normalise to a separator.
 */
export function canonicalPath(path: string): string {
  if (!sentForm.test(path)) throw refused();
  const canonical = path.replace(escaped, (_, digits: string | undefined) => resolve(digits));
  if (encodedSemicolon.test(canonical) || encodedTwice.test(canonical)) throw refused();
  const segments = canonical.slice(1).split(separator);
  for (const [index, segment] of segments.entries()) {
    // Some servers cut `;…` off a segment before they resolve dots.
    const name = readAsText(segment.split(';', 1)[0] ?? '');
    const isLast = index === segments.length - 1;
    if (name === '.' || name === '..' || (segment === '' && !isLast)) throw refused();
    if (segment.includes(';')) readAsText(segment.slice(segment.indexOf(';') + 1));
  }
  return canonical;
}

/** Decodes and normalises a part of the path, as some servers do. */
function readAsText(text: string): string {
  if (!text.includes('%')) return text;
  let decoded = '';
  for (const character of decodeUtf8(text)) {
    const read = character.normalize('NFKC');
    const isEscape = character <= '\x7f';
    if (!isEscape && (bestFit.test(character) || separatorLike.test(read))) throw refused();
    decoded += read;
  }
  return decoded;
}

/** Accepts well-formed UTF-8 only, because an overlong form could encode `/`. */
function decodeUtf8(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refused();
  }
}

/** The query is forwarded as sent. It must be printable ASCII and must not override the method. */
export function opaqueQuery(query: string): string {
  if (!queryForm.test(query)) throw refused();
  const names = query.split(/[&;]/).map((part) => part.split('=', 1)[0] ?? '');
  refuseMethodOverride(names.map((name) => name.replaceAll('+', ' ')));
  return query;
}

function resolve(digits: string | undefined): string {
  if (digits === undefined || !hex.test(digits)) throw refused();
  const code = Number.parseInt(digits, 16);
  if (code < 0x20 || code === 0x7f) throw refused();
  const character = String.fromCharCode(code);
  return unreserved.test(character) ? character : `%${digits.toUpperCase()}`;
}

function refused(): GatewayError {
  return new GatewayError('proxy.path_refused', {
    message:
      'The path can be read in more than one way: write it without dot or empty segments, backslashes, %3B, characters that look like separators, and escapes that are not UTF-8.',
  });
}
