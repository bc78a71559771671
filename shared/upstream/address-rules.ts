import { BlockList } from 'node:net';
import { type Address, cidr, ipv4Address, parseAddress, type Range } from '../base/address.ts';

/** The reason why connecting to an address is refused. */
type AddressKind = 'metadata' | 'link-local' | 'loopback' | 'private' | 'reserved';

/** Decides which addresses a program may connect to. */
interface AddressRules {
  /**
   * Returns the reason why connecting is refused; undefined if it is allowed. Accepts any textual
   * form of an IP address.
   */
  refusal(address: string): AddressKind | undefined;
}

/** The addresses of several ranges. */
export class AddressSet {
  // One list for each address family, because a single `BlockList` would find 10.0.0.1 in ::/0.
  readonly #lists = { ipv4: new BlockList(), ipv6: new BlockList() };

  constructor(ranges: readonly Range[]) {
    for (const { address, prefixBits } of ranges) {
      const { family, text } = address;
      this.#lists[family].addSubnet(text, prefixBits, family);
    }
  }

  has({ family, text }: Address): boolean {
    return this.#lists[family].check(text, family);
  }
}

export function addressSet(...ranges: readonly string[]): AddressSet {
  return new AddressSet(ranges.map(cidr));
}

type KindsOfAddresses = readonly (readonly [AddressKind, AddressSet])[];

// Addresses at which cloud metadata services return a machine's own credentials. They are refused
// even if an allowed range contains them.
const neverReached: KindsOfAddresses = [
  [
    'metadata',
    addressSet(
      '169.254.169.254/32',
      '169.254.170.2/32',
      '100.100.100.200/32', // Alibaba Cloud
      '168.63.129.16/32', // Azure's wire server
      '192.0.0.192/32', // Oracle Cloud
      'fd00:ec2::254/128',
      'fd00:ec2::23/128',
      'fd20:ce::254/128', // Google Cloud
    ),
  ],
  ['link-local', addressSet('169.254.0.0/16', 'fe80::/10')],
];

const privateAddresses = addressSet(
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  'fc00::/7',
  'fec0::/10',
);

const reservedAddresses = addressSet(
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
);

// IANA special-purpose registries (RFC 6890) and multicast.
const reachedWhenAllowed: KindsOfAddresses = [
  ['loopback', addressSet('127.0.0.0/8', '::1/128')],
  ['private', privateAddresses],
  ['reserved', reservedAddresses],
];

const globalUnicast = addressSet('2000::/3');

/** IPv6 addresses that embed an IPv4 address. */
interface Carrier {
  readonly addresses: AddressSet;
  /** The byte positions of the embedded address; `inverted` if the bytes are complemented. */
  readonly places: readonly (readonly [number, number, number, number])[];
  readonly inverted?: true;
  /**
   * The address routes only to its embedded IPv4 address, so it is allowed if the IPv4 address is
   * allowed.
   */
  readonly isRouted?: true;
}

const last = [12, 13, 14, 15] as const;
const teredo = addressSet('2001::/32');
const carriers: readonly Carrier[] = [
  // NAT64 (RFC 6052) and SIIT (RFC 7915).
  { addresses: addressSet('64:ff9b::/96', '::ffff:0:0:0/96'), places: [last], isRouted: true },
  // 6to4 (RFC 3056).
  { addresses: addressSet('2002::/16'), places: [[2, 3, 4, 5]], isRouted: true },
  // NAT64 for local use (RFC 8215), with a prefix of 48 to 96 bits.
  {
    addresses: addressSet('64:ff9b:1::/48'),
    places: [last, [6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]],
  },
  // Teredo (RFC 4380): server, then client.
  { addresses: teredo, places: [[4, 5, 6, 7]] },
  { addresses: teredo, places: [last], inverted: true },
  // IPv4-compatible (RFC 4291 section 2.5.5.1).
  { addresses: addressSet('::/96'), places: [last] },
];
// `::` and `::1` are not IPv4-compatible addresses.
const withoutCarried = addressSet('::/120');
// ISATAP (RFC 5214): this interface identifier under any prefix, with or without the global bit.
const isatap = [0x00, 0x00, 0x5e, 0xfe] as const;

/**
 * Creates rules. `allowed` lists CIDR ranges that are exempt from the refusal of loopback, private
 * and reserved addresses.
 */
export function addressRules(allowed: readonly string[]): AddressRules {
  const exceptions = addressSet(...allowed);
  return {
    refusal(text) {
      const address = parseAddress(text);
      return address === undefined ? 'reserved' : judge(address, exceptions);
    },
  };
}

function judge(address: Address, exceptions: AddressSet): AddressKind | undefined {
  const never = kindOf(address, neverReached);
  if (never !== undefined) return never;
  const inside = carriedAddresses(address).map((carried) => judge(carried, exceptions));
  const forbidden = inside.find((kind) => kind === 'metadata' || kind === 'link-local');
  if (forbidden !== undefined) return forbidden;
  if (exceptions.has(address)) return undefined;
  const carried = inside.find((kind) => kind !== undefined);
  if (carried !== undefined || isRouted(address)) return carried;
  const special = kindOf(address, reachedWhenAllowed);
  if (special !== undefined) return special;
  return address.family === 'ipv6' && !globalUnicast.has(address) ? 'reserved' : undefined;
}

function kindOf(address: Address, kinds: KindsOfAddresses): AddressKind | undefined {
  return kinds.find(([, addresses]) => addresses.has(address))?.[0];
}

/** The IPv4 addresses embedded in an IPv6 address, which a translator or tunnel may connect to. */
export function carriedAddresses(address: Address): Address[] {
  if (address.family === 'ipv4' || withoutCarried.has(address)) return [];
  const { bytes } = address;
  const found = carriers
    .filter(({ addresses }) => addresses.has(address))
    .flatMap(({ places, inverted }) =>
      places.map((place) =>
        Uint8Array.from(place, (at) => (bytes[at] ?? 0) ^ (inverted === true ? 0xff : 0)),
      ),
    );
  const isIsatap = isatap.every((byte, index) => {
    return ((bytes[8 + index] ?? 0) & (index === 0 ? 0xfd : 0xff)) === byte;
  });
  return (isIsatap ? [...found, bytes.slice(12)] : found).map(ipv4Address);
}

function isRouted(address: Address): boolean {
  return carriers.some(({ isRouted, addresses }) => isRouted === true && addresses.has(address));
}
