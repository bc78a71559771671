import { type Address, parseAddress } from '../../shared/base/address.ts';

/** The two addresses that represent one name. */
export interface SyntheticAddresses {
  readonly ipv4: string;
  readonly ipv6: string;
}

/** 198.18.0.0/15, reserved for benchmarks of networks (RFC 2544), so no real host uses it. */
const ipv4Base = (198 * 256 + 18) * 65_536;
/** A unique local prefix (RFC 4193). The last 17 bits are the number of the name. */
const ipv6Prefix = 'fd53:616c:6c79:706f:7274::';
const prefixBytes = Buffer.from('fd53616c6c79706f72740000', 'hex');
const numbersMax = 131_072;
/** Numbers 0 and 131071 would be the first and the last address of the network. */
const firstNumber = 1;
const namesMaxByDefault = 16_384;

/**
 * Assigns a separate address to each name that the agent queries. The address of a connection then
 * identifies the name. Holds at most `namesMax` names; then the least recently used name is
 * removed.
 */
export class SyntheticNames {
  readonly #namesMax: number;
  /** Number by name, the least recently used first. */
  readonly #numbers = new Map<string, number>();
  readonly #names = new Map<number, string>();
  #next = firstNumber;

  constructor({ namesMax = namesMaxByDefault }: { readonly namesMax?: number } = {}) {
    if (namesMax >= numbersMax - 2) throw new RangeError(`${namesMax} names have no addresses.`);
    this.#namesMax = namesMax;
  }

  /**
   * The addresses of a name, in the form of `normaliseHost`. They stay the same until the name is
   * removed.
   */
  addressesOf(name: string): SyntheticAddresses {
    const number = this.#numbers.get(name) ?? this.#freeNumber();
    // Set again, so that the name becomes the most recently used one.
    this.#numbers.delete(name);
    this.#numbers.set(name, number);
    this.#names.set(number, name);
    const ipv4 = ipv4Base + number;
    const bytes = [24, 16, 8, 0].map((shift) => (ipv4 >>> shift) & 255);
    return { ipv4: bytes.join('.'), ipv6: ipv6Text(number) };
  }

  /** The name of a synthetic address; undefined for other addresses and for removed names. */
  nameOf(address: string): string | undefined {
    const number = numberIn(parseAddress(address));
    const name = number === undefined ? undefined : this.#names.get(number);
    if (name !== undefined) this.addressesOf(name);
    return name;
  }

  /**
   * Numbers are assigned in rotation, so that a freed number stays unused for a long time before it
   * gets another name.
   */
  #freeNumber(): number {
    if (this.#numbers.size >= this.#namesMax) this.#forgetOldest();
    while (this.#names.has(this.#next)) this.#advance();
    const number = this.#next;
    this.#advance();
    return number;
  }

  #advance(): void {
    this.#next = this.#next + 1 >= numbersMax - 1 ? firstNumber : this.#next + 1;
  }

  #forgetOldest(): void {
    for (const [name, number] of this.#numbers) {
      this.#numbers.delete(name);
      this.#names.delete(number);
      return;
    }
  }
}

function ipv6Text(number: number): string {
  const high = number >>> 16;
  const low = (number & 0xffff).toString(16);
  return high === 0
    ? `${ipv6Prefix}${low}`
    : `${ipv6Prefix.slice(0, -1)}:${high.toString(16)}:${low}`;
}

function numberIn(address: Address | undefined): number | undefined {
  if (address === undefined) return undefined;
  const bytes = Buffer.from(address.bytes);
  if (bytes.length === 4) {
    const number = bytes.readUInt32BE() - ipv4Base;
    return number >= 0 && number < numbersMax ? number : undefined;
  }
  return bytes.subarray(0, 12).equals(prefixBytes) ? bytes.readUInt32BE(12) : undefined;
}
