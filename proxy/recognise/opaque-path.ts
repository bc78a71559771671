import { GatewayError } from '../../shared/errors.ts';

const sentForm = /^\/[!"$-[\]-~]*$/;
const queryForm = /^[!"$-~]*$/;
const escaped = /%(..)?/g;
const hex = /^[0-9A-Fa-f]{2}$/;
const unreserved = /^[A-Za-z0-9\-._~]$/;
const separator = /\/|%2F|%5C/;
const encodedTwice = /%25(?:2e|2f|5c)/i;

/**
 * The path of a call on a host without bindings, which becomes the resource and is sent as it
 * reads here: escapes of unreserved characters are resolved and the others upper-cased (RFC 3986,
 * section 6.2.2). Refuses what an upstream might resolve to another path: dot and empty segments
 * however encoded, backslashes, control characters.
 */
export function canonicalPath(path: string): string {
  if (!sentForm.test(path) || encodedTwice.test(path)) throw refused();
  const canonical = path.replace(escaped, (_, digits: string | undefined) => resolve(digits));
  const segments = canonical.slice(1).split(separator);
  for (const [index, segment] of segments.entries()) {
    // Some servers cut `;…` off a segment before they resolve dots.
    const name = segment.split(';', 1)[0] ?? '';
    const isLast = index === segments.length - 1;
    if (name === '.' || name === '..' || (segment === '' && !isLast)) throw refused();
  }
  return canonical;
}

/** The query goes on as it was sent; it must be printable ASCII and change no method. */
export function opaqueQuery(query: string): string {
  if (!queryForm.test(query)) throw refused();
  for (const part of query.split(/[&;]/)) {
    const name = part.split('=', 1)[0] ?? '';
    if (readable(name).toLowerCase() !== '_method') continue;
    throw new GatewayError('proxy.method_refused', {
      message: 'The parameter _method would change the method; send the method itself.',
    });
  }
  return query;
}

function resolve(digits: string | undefined): string {
  if (digits === undefined || !hex.test(digits)) throw refused();
  const code = Number.parseInt(digits, 16);
  if (code < 0x20 || code === 0x7f) throw refused();
  const character = String.fromCharCode(code);
  return unreserved.test(character) ? character : `%${digits.toUpperCase()}`;
}

function readable(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function refused(): GatewayError {
  return new GatewayError('proxy.path_refused', {
    message:
      'The path is written in a way that cannot be judged: no dot or empty segments and no backslash, encoded or not.',
  });
}
