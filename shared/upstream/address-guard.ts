import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { parseAddress } from '../base/address.ts';
import { isAddress } from '../base/host.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { addressRules, addressSet, carriedAddresses } from './address-rules.ts';

type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Checks addresses between name resolution and the opening of a socket. */
export interface Guard {
  /**
   * Ports on which Sallyport listens on this machine. Connecting to them is refused. Servers add
   * their own ports.
   */
  readonly ownPorts: Set<number>;
  /**
   * True if the host is known, without name resolution, to be this machine, and the port is in
   * `ownPorts`.
   */
  isOwn(host: string, port: number): boolean;
  /**
   * Returns the reason why a connection to this address and port is refused; undefined if it is
   * allowed.
   */
  refusal(address: string, port: number): GatewayError | undefined;
  /**
   * A `lookup` function for sockets to `port`. It resolves a name and returns exactly the addresses
   * that it checked. If one address is refused, the name is refused. Sockets do not call `lookup`
   * for literal addresses: check these with `refusal`.
   */
  lookup(port: number): LookupFunction;
}

interface GuardOptions {
  /** CIDR ranges that are exempt from the refusal of loopback, private and reserved addresses. */
  readonly allowPrivate: readonly string[];
  readonly ownPorts?: readonly number[] | undefined;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
}

export function createGuard({ allowPrivate, ownPorts: known = [], resolve }: GuardOptions): Guard {
  const ownPorts = new Set(known);
  const rules = addressRules(allowPrivate);
  const resolveAll: Resolve = resolve ?? systemLookup;

  function refusal(address: string, port: number): GatewayError | undefined {
    const kind = rules.refusal(address);
    if (kind !== undefined) return refused(`${address} is a ${kind} address.`);
    if (ownPorts.has(port) && isThisMachine(address)) {
      return refused(
        `Port ${port} of this machine belongs to Sallyport; agents cannot connect to it.`,
      );
    }
    return undefined;
  }

  function lookup(port: number): LookupFunction {
    return (hostname, options, callback) => {
      resolveAll(hostname, { ...options, all: true }, (error, addresses) => {
        if (error !== null) {
          callback(error, '', 0);
          return;
        }
        for (const { address } of addresses) {
          const refusedHere = refusal(address, port);
          if (refusedHere !== undefined) {
            callback(refusedHere, '', 0);
            return;
          }
        }
        const [first] = addresses;
        if (first === undefined) {
          callback(notFound(hostname), '', 0);
          return;
        }
        return options.all
          ? callback(null, addresses)
          : callback(null, first.address, first.family);
      });
    };
  }

  function isOwn(host: string, port: number): boolean {
    if (!ownPorts.has(port)) return false;
    return /(?:^|\.)localhost$/.test(host) || (isAddress(host) && isThisMachine(host));
  }

  return { ownPorts, isOwn, refusal, lookup };
}

function refused(message: string): GatewayError {
  return new GatewayError('proxy.address_refused', { message });
}

function notFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${hostname} has no address.`), { code: 'ENOTFOUND' });
}

const loopbackOrAny = addressSet('127.0.0.0/8', '0.0.0.0/8', '::/127');

/** True if an address, or an IPv4 address embedded in it, belongs to this machine. */
function isThisMachine(text: string): boolean {
  const address = parseAddress(text);
  if (address === undefined) return true;
  const all = [address, ...carriedAddresses(address)];
  if (all.some((one) => loopbackOrAny.has(one))) return true;
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const known = new Set(own.map((entry) => parseAddress(entry.address)?.text));
  return all.some((one) => known.has(one.text));
}

/** The refusal of a host that is a literal address; undefined for names, which `lookup` checks. */
export function literalRefusal(guard: Guard, host: string, port: number): GatewayError | undefined {
  return isAddress(host) ? guard.refusal(host, port) : undefined;
}
