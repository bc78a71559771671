import type { Socket } from 'node:net';
import koffi from 'koffi';

// Linux on 64-bit machines: bits/socket.h, asm-generic/socket.h, poll.h. The layout of `msghdr` is
// that of glibc, and equals that of musl on little-endian machines.
const solSocket = 1;
const scmRights = 1;
const controlHeaderBytes = 16;
const descriptorBytes = 4;
const options = { type: 3, isListening: 30, domain: 39 } as const;
const msgDontWait = 0x40;
const msgCloseOnExec = 0x4000_0000;
const msgTruncated = 0x20 | 0x8;
const pollIn = 1;
const payloadBytes = 64;

interface MessageHeader {
  name: null;
  nameLength: number;
  parts: { base: Buffer; length: number }[];
  partsCount: number;
  control: Buffer;
  controlLength: number;
  flags: number;
}

const libc = koffi.load(null);
koffi.struct('sallyport_iovec', { base: 'void *', length: 'size_t' });
koffi.struct('sallyport_msghdr', {
  name: 'void *',
  nameLength: 'uint32_t',
  parts: 'sallyport_iovec *',
  partsCount: 'size_t',
  control: 'void *',
  controlLength: 'size_t',
  flags: 'int',
});
const sendmsg = libc.func('long sendmsg(int fd, const sallyport_msghdr *message, int flags)');
const recvmsg = libc.func('long recvmsg(int fd, _Inout_ sallyport_msghdr *message, int flags)') as (
  fd: number,
  message: MessageHeader,
  flags: number,
) => number;
const poll = libc.func('int poll(_Inout_ uint8_t *sockets, unsigned long count, int timeout)');
const closeDescriptor = libc.func('int close(int fd)') as (fd: number) => number;
const getsockopt = libc.func(
  'int getsockopt(int fd, int level, int option, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
) as (fd: number, level: number, option: number, value: Buffer, length: [number]) => number;

const openSocket = libc.func('int socket(int domain, int type, int protocol)');
const setOption = libc.func(
  'int setsockopt(int fd, int level, int option, const void *value, uint32_t length)',
);
const bindSocket = libc.func('int bind(int fd, const void *address, uint32_t length)');
const udpOf = {
  IPv4: { domain: 2, addressBytes: 16 },
  IPv6: { domain: 10, addressBytes: 28 },
} as const;
const datagramCloseOnExec = 2 | 0o2_000_000;
const ipv6Level = 41;
const ipv6Only = 26;

/** Opens a UDP socket on loopback as a descriptor, which Node's own UDP sockets do not reveal. */
export function openUdpDescriptor(family: 'IPv4' | 'IPv6', port: number): number {
  const { domain, addressBytes } = udpOf[family];
  // struct sockaddr_in: family, port, address. struct sockaddr_in6: family, port, flow, address.
  const address = Buffer.alloc(addressBytes);
  address.writeUInt16LE(domain, 0);
  address.writeUInt16BE(port, 2);
  if (family === 'IPv4') address.set([127, 0, 0, 1], 4);
  else address[23] = 1;
  const fd = openSocket(domain, datagramCloseOnExec, 0) as number;
  const one = Buffer.from([1, 0, 0, 0]);
  const isIpv6Only = family === 'IPv4' || setOption(fd, ipv6Level, ipv6Only, one, 4) === 0;
  if (fd >= 0 && isIpv6Only && bindSocket(fd, address, address.length) === 0) return fd;
  throw new Error(`cannot open UDP port ${port} on ${family} loopback (errno ${koffi.errno()})`);
}

/** A message of another process, with the descriptors that came with it. */
export interface DescriptorMessage {
  readonly text: string;
  readonly descriptors: readonly number[];
}

/** The descriptor of an open socket. */
export function descriptorOf(socket: object): number {
  const handle = (socket as { readonly _handle?: { readonly fd?: number } })._handle;
  return handle?.fd ?? -1;
}

/** Sends copies of descriptors over a Unix socket (unix(7), SCM_RIGHTS). Throws if it fails. */
export function sendDescriptors(socket: Socket, { text, descriptors }: DescriptorMessage): void {
  const length = controlHeaderBytes + descriptors.length * descriptorBytes;
  const control = Buffer.alloc(Math.ceil(length / 8) * 8);
  control.writeUInt32LE(length, 0);
  control.writeInt32LE(solSocket, 8);
  control.writeInt32LE(scmRights, 12);
  descriptors.forEach((fd, index) => {
    control.writeInt32LE(fd, controlHeaderBytes + index * descriptorBytes);
  });
  const message = header(Buffer.from(text), control);
  const sent = sendmsg(descriptorOf(socket), message, 0) as number;
  if (sent !== text.length) throw new Error(`sendmsg failed (errno ${koffi.errno()})`);
}

/**
 * Waits for the first message on a Unix socket that nothing has read from. Returns undefined if no
 * message arrives in time. Also returns undefined if the message is longer than expected, and
 * closes its descriptors.
 */
export async function receiveDescriptors(
  socket: Socket,
  { max, timeoutMs }: { readonly max: number; readonly timeoutMs: number },
): Promise<DescriptorMessage | undefined> {
  const fd = descriptorOf(socket);
  if (!(await isReadable(fd, timeoutMs)) || socket.destroyed) return undefined;
  const data = Buffer.alloc(payloadBytes);
  // koffi replaces the pointers in `message`, so the buffers are kept here.
  const control = Buffer.alloc(controlHeaderBytes + max * descriptorBytes);
  const message = header(data, control);
  const read = recvmsg(fd, message, msgDontWait | msgCloseOnExec);
  const descriptors = descriptorsIn(control, message.controlLength);
  if (read <= 0 || (message.flags & msgTruncated) !== 0) {
    closeDescriptors(descriptors);
    return undefined;
  }
  return { text: data.toString('latin1', 0, read), descriptors };
}

function header(data: Buffer, control: Buffer): MessageHeader {
  return {
    name: null,
    nameLength: 0,
    parts: [{ base: data, length: data.length }],
    partsCount: 1,
    control,
    controlLength: control.length,
    flags: 0,
  };
}

function descriptorsIn(control: Buffer, controlLength: number): number[] {
  if (controlLength < controlHeaderBytes) return [];
  const isRights = control.readInt32LE(8) === solSocket && control.readInt32LE(12) === scmRights;
  const end = Math.min(control.readUInt32LE(0), controlLength);
  const count = Math.floor((end - controlHeaderBytes) / descriptorBytes);
  if (!isRights) return [];
  return Array.from({ length: count }, (_, index) =>
    control.readInt32LE(controlHeaderBytes + index * descriptorBytes),
  );
}

/** Waits in a thread of the pool, because libuv would read the message without its descriptors. */
function isReadable(fd: number, timeoutMs: number): Promise<boolean> {
  const wanted = Buffer.alloc(8);
  wanted.writeInt32LE(fd, 0);
  wanted.writeInt16LE(pollIn, 4);
  return new Promise((resolve) => {
    poll.async(wanted, 1, timeoutMs, (_error: unknown, count: number) => resolve(count === 1));
  });
}

export function closeDescriptors(descriptors: readonly number[]): void {
  for (const fd of descriptors) closeDescriptor(fd);
}

export interface SocketKind {
  readonly family: 'IPv4' | 'IPv6' | 'unix' | 'other';
  readonly type: 'stream' | 'datagram' | 'other';
  readonly isListening: boolean;
}

/** The kind of socket of a descriptor; undefined for a descriptor that is not a socket. */
export function socketKind(fd: number): SocketKind | undefined {
  const domain = socketOption(fd, options.domain);
  if (domain === undefined) return undefined;
  const families: Readonly<Record<number, SocketKind['family']>> = {
    1: 'unix',
    2: 'IPv4',
    10: 'IPv6',
  };
  const types: Readonly<Record<number, SocketKind['type']>> = { 1: 'stream', 2: 'datagram' };
  return {
    family: families[domain] ?? 'other',
    type: types[socketOption(fd, options.type) ?? 0] ?? 'other',
    isListening: socketOption(fd, options.isListening) === 1,
  };
}

function socketOption(fd: number, option: number): number | undefined {
  const value = Buffer.alloc(4);
  return getsockopt(fd, solSocket, option, value, [value.length]) === 0
    ? value.readInt32LE(0)
    : undefined;
}
