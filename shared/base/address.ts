import { normaliseHost } from './host.ts';

/** The reason why connecting to an address is refused. */
type AddressKind = 'metadata' | 'link-local' | 'loopback' | 'private' | 'reserved';

interface Range {
  readonly bytes: Uint8Array;
  readonly prefixBits: number;
}

/** Decides which addresses a program may connect to. */
interface AddressRules {
  /** Undefined if connecting is allowed. Accepts any textual form of an IP address. */
  refusal(address: string): AddressKind | undefined;
}

// Cloud metadata services that return a machine's own credentials. They are refused even if a range
// allows them.
const neverReached = ranges('metadata', [
  '169.254.169.254/32',
  '169.254.170.2/32',
  '100.100.100.200/32', // Alibaba Cloud
  '168.63.129.16/32', // Azure's wire server
  '192.0.0.192/32', // Oracle Cloud
  'fd00:ec2::254/128',
  'fd00:ec2::23/128',
  'fd20:ce::254/128', // Google Cloud
]).concat(ranges('link-local', ['169.254.0.0/16', 'fe80::/10']));

// IANA special-purpose registries (RFC 6890) and multicast.
const reachedWhenAllowed = ranges('loopback', ['127.0.0.0/8', '::1/128'])
  .concat(
    ranges('private', [
      '10.0.0.0/8',
      '172.16.0.0/12',
      '192.168.0.0/16',
      '100.64.0.0/10',
      'fc00::/7',
      'fec0::/10',
    ]),
  )
  .concat(
    ranges('reserved', [
      '0.0.0.0/8',
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.88.99.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '224.0.0.0/3',
      '2001::/23',
      '2001:db8::/32',
      '3fff::/20',
    ]),
  );

const globalUnicast = cidr('2000::/3');

/** An IPv6 prefix whose addresses embed an IPv4 address. */
interface Carrier extends Range {
  /** The byte positions of the embedded address; `inverted` if the bytes are complemented. */
  readonly places: readonly (readonly [number, number, number, number])[];
  readonly inverted?: true;
  /** The address routes to its embedded IPv4 address only, so it is allowed if that one is. */
  readonly isRouted?: true;
}

const last = [12, 13, 14, 15] as const;
const carriers: readonly Carrier[] = [
  // NAT64 (RFC 6052), SIIT (RFC 7915), 6to4 (RFC 3056).
  { ...cidr('64:ff9b::/96'), places: [last], isRouted: true },
  { ...cidr('::ffff:0:0:0/96'), places: [last], isRouted: true },
  { ...cidr('2002::/16'), places: [[2, 3, 4, 5]], isRouted: true },
  // NAT64 for local use (RFC 8215), with a prefix of 48 to 96 bits.
  { ...cidr('64:ff9b:1::/48'), places: [last, [6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]] },
  // Teredo (RFC 4380): server, then client.
  { ...cidr('2001::/32'), places: [[4, 5, 6, 7]] },
  { ...cidr('2001::/32'), places: [last], inverted: true },
  // IPv4-compatible (RFC 4291 section 2.5.5.1).
  { ...cidr('::/96'), places: [last] },
];
// ISATAP (RFC 5214): this interface identifier under any prefix, with or without the global bit.
const isatap = [0x00, 0x00, 0x5e, 0xfe] as const;

/**
 * `allowed` lists CIDR ranges that are exempt from the refusal of loopback, private and reserved
 * addresses.
 */
export function addressRules(allowed: readonly string[]): AddressRules {
  const exceptions = allowed.map(cidr);
  return {
    refusal(address) {
      const bytes = addressBytes(address);
      return bytes === undefined ? 'reserved' : judge(bytes, exceptions);
    },
  };
}

function judge(bytes: Uint8Array, exceptions: readonly Range[]): AddressKind | undefined {
  const never = neverReached.find((range) => contains(range, bytes));
  if (never !== undefined) return never.kind;
  const inside = carriedAddresses(bytes).map((address) => judge(address, exceptions));
  const forbidden = inside.find((kind) => kind === 'metadata' || kind === 'link-local');
  if (forbidden !== undefined) return forbidden;
  if (exceptions.some((range) => contains(range, bytes))) return undefined;
  const carried = inside.find((kind) => kind !== undefined);
  if (carried !== undefined || isRouted(bytes)) return carried;
  const special = reachedWhenAllowed.find((range) => contains(range, bytes));
  if (special !== undefined) return special.kind;
  return bytes.length === 16 && !contains(globalUnicast, bytes) ? 'reserved' : undefined;
}

/** The IPv4 addresses embedded in an IPv6 address, which a translator or tunnel may connect to. */
export function carriedAddresses(bytes: Uint8Array): Uint8Array[] {
  // `::` and `::1` are not IPv4-compatible addresses.
  if (bytes.length !== 16 || bytes.subarray(0, 15).every((byte) => byte === 0)) return [];
  const found = carriers
    .filter((carrier) => contains(carrier, bytes))
    .flatMap(({ places, inverted }) =>
      places.map((place) =>
        Uint8Array.from(place, (at) => (bytes[at] ?? 0) ^ (inverted === true ? 0xff : 0)),
      ),
    );
  const isIsatap = isatap.every((byte, index) => {
    return ((bytes[8 + index] ?? 0) & (index === 0 ? 0xfd : 0xff)) === byte;
  });
  return isIsatap ? [...found, bytes.slice(12)] : found;
}

function isRouted(bytes: Uint8Array): boolean {
  return carriers.some((carrier) => carrier.isRouted === true && contains(carrier, bytes));
}

/**
 * Parses `10.0.0.0/8` or a single address. Throws on other text and on bits set beyond the prefix.
 */
export function cidr(text: string): Range {
  const [address = '', prefix, ...rest] = text.trim().split('/');
  const bytes = addressBytes(address);
  const prefixBits = prefix === undefined ? (bytes?.length ?? 0) * 8 : Number(prefix);
  const wellFormed =
    bytes !== undefined &&
    rest.length === 0 &&
    /^\d{1,3}$/.test(prefix ?? '0') &&
    prefixBits <= bytes.length * 8;
  if (!wellFormed || !isBare(bytes, prefixBits)) {
    throw new Error(`${text} is not a CIDR range such as 10.0.0.0/8 or fd00::/8.`);
  }
  return { bytes, prefixBits };
}

function isBare(bytes: Uint8Array, prefixBits: number): boolean {
  return bytes.every((byte, index) => {
    const kept = Math.min(8, Math.max(0, prefixBits - index * 8));
    return (byte & (0xff >> kept)) === 0;
  });
}

function ranges(kind: AddressKind, texts: readonly string[]) {
  return texts.map((text) => ({ ...cidr(text), kind }));
}

function contains(range: Range, bytes: Uint8Array): boolean {
  if (range.bytes.length !== bytes.length) return false;
  const whole = range.prefixBits >> 3;
  for (let index = 0; index < whole; index++) {
    if (range.bytes[index] !== bytes[index]) return false;
  }
  const rest = range.prefixBits & 7;
  if (rest === 0) return true;
  const difference = (range.bytes[whole] ?? 0) ^ (bytes[whole] ?? 0);
  return difference >> (8 - rest) === 0;
}

/** True if an address, in any textual form, lies within the range. */
export function isWithin(range: Range, address: string): boolean {
  const bytes = addressBytes(address);
  return bytes !== undefined && contains(range, bytes);
}

/** The bytes of an address, 4 or 16; an IPv4-mapped address has 4. Undefined for other text. */
export function addressBytes(text: string): Uint8Array | undefined {
  const host = normaliseHost(text.split('%')[0] ?? '');
  if (host === undefined) return undefined;
  if (host.includes(':')) return parseIpv6(host);
  const octets = host.split('.').map(Number);
  const isIpv4 = octets.length === 4 && octets.every((octet) => octet >= 0 && octet <= 255);
  return isIpv4 ? Uint8Array.from(octets) : undefined;
}

function parseIpv6(host: string): Uint8Array {
  const [head = '', tail = ''] = host.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === '' ? [] : tail.split(':');
  const middle = Array<string>(8 - left.length - right.length).fill('0');
  const groups = [...left, ...middle, ...right].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255]));
}
