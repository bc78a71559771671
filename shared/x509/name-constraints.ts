import { cidr, parseAddress, type Range } from '../base/address.ts';
import { isAddress, normaliseHost } from '../base/host.ts';
import { AddressSet } from '../upstream/address-rules.ts';

/**
 * Hosts for which the authority may issue certificates: names with their subdomains, and address
 * ranges.
 */
export interface NameConstraints {
  readonly names: readonly string[];
  readonly ranges: readonly Range[];
  /** The addresses of `ranges`. */
  readonly addresses: AddressSet;
}

/**
 * Reads `example.com, 10.0.0.0/8`: a name permits itself and its subdomains. Throws on anything
 * else. `always` contains additional permitted names.
 */
export function parseNameConstraints(text: string, always: readonly string[]): NameConstraints {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  const isRange = (item: string) => item.includes('/') || parseAddress(item) !== undefined;
  const ranges = items.filter(isRange).map(cidr);
  return {
    names: [...new Set([...items.filter((item) => !isRange(item)).map(name), ...always])],
    ranges,
    addresses: new AddressSet(ranges),
  };
}

function name(item: string): string {
  const host = normaliseHost(item);
  if (host !== undefined && !isAddress(host)) return host;
  throw new Error(
    `${item} is neither a host name nor a CIDR range. A name permits itself and all below it: write example.com, not *.example.com.`,
  );
}

/**
 * True if the constraints permit a host. `host` must be in the canonical form of `normaliseHost`.
 */
export function permits({ names, addresses }: NameConstraints, host: string): boolean {
  const address = isAddress(host) ? parseAddress(host) : undefined;
  return address === undefined
    ? names.some((permitted) => host === permitted || host.endsWith(`.${permitted}`))
    : addresses.has(address);
}
