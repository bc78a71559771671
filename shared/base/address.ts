import { normaliseHost } from './host.ts';

/** An IP address. An IPv4-mapped IPv6 address is represented as the IPv4 address. */
export interface Address {
  readonly family: 'ipv4' | 'ipv6';
  /** The canonical form of `normaliseHost`; equal addresses have equal text. */
  readonly text: string;
  /** 4 or 16 bytes. */
  readonly bytes: Uint8Array;
}

/** A CIDR range; `address` is the first address in the range. */
export interface Range {
  readonly address: Address;
  readonly prefixBits: number;
}

/** Parses any textual form of an IP address, with or without a zone. Undefined for other text. */
export function parseAddress(text: string): Address | undefined {
  const host = normaliseHost(text.split('%')[0] ?? '');
  if (host === undefined) return undefined;
  if (host.includes(':')) return { family: 'ipv6', text: host, bytes: ipv6Bytes(host) };
  const octets = host.split('.').map(Number);
  const isIpv4 = octets.length === 4 && octets.every((octet) => octet >= 0 && octet <= 255);
  return isIpv4 ? ipv4Address(Uint8Array.from(octets)) : undefined;
}

export function ipv4Address(bytes: Uint8Array): Address {
  return { family: 'ipv4', text: bytes.join('.'), bytes };
}

function ipv6Bytes(host: string): Uint8Array {
  const [head = '', tail = ''] = host.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === '' ? [] : tail.split(':');
  const middle = Array<string>(8 - left.length - right.length).fill('0');
  const groups = [...left, ...middle, ...right].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255]));
}

/**
 * Parses `10.0.0.0/8` or a single address. Throws on other text and on bits set beyond the prefix.
 */
export function cidr(text: string): Range {
  const [given = '', prefix, ...rest] = text.trim().split('/');
  const address = parseAddress(given);
  const prefixBits = prefix === undefined ? (address?.bytes.length ?? 0) * 8 : Number(prefix);
  const wellFormed =
    address !== undefined &&
    rest.length === 0 &&
    /^\d{1,3}$/.test(prefix ?? '0') &&
    prefixBits <= address.bytes.length * 8;
  if (!wellFormed || !isBare(address.bytes, prefixBits)) {
    throw new Error(`${text} is not a CIDR range such as 10.0.0.0/8 or fd00::/8.`);
  }
  return { address, prefixBits };
}

function isBare(bytes: Uint8Array, prefixBits: number): boolean {
  return bytes.every((byte, index) => {
    const kept = Math.min(8, Math.max(0, prefixBits - index * 8));
    return (byte & (0xff >> kept)) === 0;
  });
}
