/** A host and port. `host` is in the canonical form of `normaliseHost`. */
export interface Authority {
  readonly host: string;
  readonly port: number;
}

const plainName =
  /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
// Matches hosts that URL parsers read as an IPv4 address: the last label is a decimal or 0x number.
const numericEnd = /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/;
const refusedCharacters = /[\p{Cc}\p{White_Space}%/\\?#@:[\]<>^|"`{}]/u;
const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/**
 * The canonical form of a host: a lower-case A-label name without trailing dot, a dotted IPv4
 * address, or an IPv6 address without brackets in RFC 5952 form (an IPv4-mapped address becomes
 * IPv4). Accepts Unicode names, and IPv6 with or without brackets. Undefined if the text is not a
 * host.
 */
export function normaliseHost(input: string): string | undefined {
  const isPlain = plainName.test(input) && !input.includes('xn--');
  if (isPlain && (!numericEnd.test(input) || ipv4.test(input))) return input;
  if (input.startsWith('[') || input.includes(':')) return normaliseIpv6(input);
  if (input === '' || input.length > 1000 || refusedCharacters.test(input)) return undefined;
  // URL parsers would also remove a second dot after an IPv4 address.
  if (input.endsWith('..')) return undefined;
  const host = hostnameOf(input.endsWith('.') ? input.slice(0, -1) : input);
  if (host === undefined) return undefined;
  return plainName.test(host) && (!numericEnd.test(host) || ipv4.test(host)) ? host : undefined;
}

function normaliseIpv6(input: string): string | undefined {
  const bare = input.startsWith('[') && input.endsWith(']') ? input.slice(1, -1) : input;
  if (!/^[0-9a-f:.]{2,45}$/i.test(bare)) return undefined;
  const host = hostnameOf(`[${bare}]`)?.slice(1, -1);
  if (host === undefined) return undefined;
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host);
  if (mapped === null) return host;
  const high = Number.parseInt(mapped[1] ?? '', 16);
  const low = Number.parseInt(mapped[2] ?? '', 16);
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

function hostnameOf(host: string): string | undefined {
  try {
    return new URL(`http://${host}/`).hostname;
  } catch {
    return undefined;
  }
}

/** True if a host is an IP address. `host` must be in the canonical form of `normaliseHost`. */
export function isAddress(host: string): boolean {
  return host.includes(':') || ipv4.test(host);
}

/**
 * Parses `host`, `host:port` or `[v6]:port` (RFC 9110 section 7.2). `defaultPort` replaces an
 * absent port; without a default, the port is required. Refuses user information and any other
 * text.
 */
export function splitAuthority(authority: string, defaultPort?: number): Authority | undefined {
  const parts = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/.exec(authority);
  if (parts === null) return undefined;
  const host = normaliseHost(parts[1] ?? '');
  const port = parts[2] === undefined ? defaultPort : parsePort(parts[2]);
  return host === undefined || port === undefined ? undefined : { host, port };
}

function parsePort(digits: string): number | undefined {
  const port = Number(digits);
  return digits.startsWith('0') || port > 65_535 ? undefined : port;
}

/**
 * Formats a host for a URL or a Host header: IPv6 in brackets, and the port only if it is not the
 * default port.
 */
export function formatAuthority({ host, port }: Authority, defaultPort?: number): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return port === defaultPort ? name : `${name}:${port}`;
}
