import type { Socket } from 'node:net';
import koffi from 'koffi';
import type { Address } from '../../shared/base/address.ts';
import { parseAddress } from '../../shared/base/address.ts';
import { descriptorOf } from './descriptors.ts';

/** The destination that a connection had before the network rules redirected it. */
export interface OriginalDestination {
  readonly address: Address;
  readonly port: number;
}

// linux/in.h, linux/in6.h, linux/netfilter_ipv4.h, linux/netfilter_ipv6/ip6_tables.h.
const ipv4Level = 0;
const ipv6Level = 41;
const originalDestinationOption = 80;
const ipv4SockaddrBytes = 16;
const ipv6SockaddrBytes = 28;

type GetSocketOption = (
  fd: number,
  level: number,
  option: number,
  value: Buffer,
  length: [number],
) => number;

/**
 * Returns a function that reads the original destination of an accepted socket
 * (`SO_ORIGINAL_DST`, which Node does not offer) by a call of the C library. The function returns
 * undefined for a connection that was not redirected. Works without privileges, on Linux only.
 */
export function originalDestinationReader(): (socket: Socket) => OriginalDestination | undefined {
  const libc = koffi.load(null);
  const getsockopt: GetSocketOption = libc.func(
    'int getsockopt(int fd, int level, int option, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
  );
  return (socket) => {
    const fd = descriptorOf(socket);
    const isIpv6 = socket.remoteFamily === 'IPv6';
    const bytes = Buffer.alloc(isIpv6 ? ipv6SockaddrBytes : ipv4SockaddrBytes);
    const level = isIpv6 ? ipv6Level : ipv4Level;
    const failed = getsockopt(fd, level, originalDestinationOption, bytes, [bytes.length]) !== 0;
    if (failed) return undefined;
    const original = isIpv6 ? ipv6Destination(bytes) : ipv4Destination(bytes);
    const isOwn =
      original?.port === socket.localPort &&
      original?.address.text === parseAddress(socket.localAddress ?? '')?.text;
    return isOwn ? undefined : original;
  };
}

// struct sockaddr_in: family, port, address. struct sockaddr_in6: family, port, flow, address.
function ipv4Destination(bytes: Buffer): OriginalDestination | undefined {
  return destination([...bytes.subarray(4, 8)].join('.'), bytes.readUInt16BE(2));
}

function ipv6Destination(bytes: Buffer): OriginalDestination | undefined {
  const groups = bytes.subarray(8, 24).toString('hex').match(/.{4}/g) ?? [];
  return destination(groups.join(':'), bytes.readUInt16BE(2));
}

function destination(text: string, port: number): OriginalDestination | undefined {
  const address = parseAddress(text);
  return address === undefined ? undefined : { address, port };
}
