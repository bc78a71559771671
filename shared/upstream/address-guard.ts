import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import { addressBytes, addressRules, carriedAddresses } from '../base/address.ts';
import { isAddress } from '../base/host.ts';
import { GatewayError } from '../errors/gateway-error.ts';

type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Stands between a name and the socket that is opened to it. */
export interface Guard {
  /** Ports on which Sallyport itself listens on this machine: never reached. Servers add theirs. */
  readonly ownPorts: Set<number>;
  /** Whether a host that was not resolved is plainly one of those ports of this machine. */
  isOwn(host: string, port: number): boolean;
  /** Undefined when a connection to this address and port may be opened. */
  refusal(address: string, port: number): GatewayError | undefined;
  /**
   * A `lookup` for sockets to that port. It resolves, refuses the name if any of its addresses is
   * refused, and hands over exactly the addresses it checked. Sockets do not ask it about
   * literal addresses: use `refusal` for those.
   */
  lookup(port: number): LookupFunction;
}

interface GuardOptions {
  /** CIDR ranges that may be reached although they are loopback, private or reserved. */
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
      return refused(`Port ${port} of this machine is Sallyport's own.`);
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

/** Whether an address, or one that a translator would take it for, is one of this machine's. */
function isThisMachine(address: string): boolean {
  const bytes = addressBytes(address);
  if (bytes === undefined) return true;
  const all = [bytes, ...carriedAddresses(bytes)];
  if (all.some(isLoopbackOrAny)) return true;
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const known = new Set(own.map((entry) => String(addressBytes(entry.address))));
  return all.some((one) => known.has(String(one)));
}

/** 127.0.0.0/8 and 0.0.0.0/8, `::1` and `::`. */
function isLoopbackOrAny(bytes: Uint8Array): boolean {
  if (bytes.length === 4) return bytes[0] === 127 || bytes[0] === 0;
  return bytes.subarray(0, 15).every((byte) => byte === 0) && (bytes[15] ?? 0) <= 1;
}

/** The refusal of a host that is a literal address; undefined for names, which `lookup` judges. */
export function literalRefusal(guard: Guard, host: string, port: number): GatewayError | undefined {
  return isAddress(host) ? guard.refusal(host, port) : undefined;
}
