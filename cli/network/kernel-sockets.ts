import { readFileSync } from 'node:fs';
import { parseAddress } from '../../shared/base/address.ts';

/** A TCP or UDP socket of this network namespace, as the kernel lists it in `/proc/net`. */
export interface KernelSocket {
  readonly local: Endpoint;
  readonly remote: Endpoint;
  /** For TCP: `01` established, `0A` listening. */
  readonly state: string;
  /** The user that opened or accepted the socket. */
  readonly uid: number;
}

export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** The sockets of both address families. Any user may read them. */
export function kernelSockets(protocol: 'tcp' | 'udp'): readonly KernelSocket[] {
  return [protocol, `${protocol}6`].flatMap((file) => parseSockets(readTable(file)));
}

/** True if a process of this user listens on a loopback port. */
export function listens(
  protocol: 'tcp' | 'udp',
  { uid, port }: { uid: number; port: number },
): boolean {
  const isOpen = ({ state }: KernelSocket) => protocol === 'udp' || state === '0A';
  return kernelSockets(protocol).some(
    (socket) => socket.uid === uid && socket.local.port === port && isOpen(socket),
  );
}

/**
 * The user at the other end of an established connection, if that end is a socket of this network
 * namespace that listens on `port`. A host outside cannot appear in this list, whatever it
 * responds.
 */
export function acceptedBy(client: Endpoint, port: number): number | undefined {
  const address = sameForm(client.address);
  return kernelSockets('tcp').find(
    ({ local, remote, state }) =>
      state === '01' &&
      local.port === port &&
      remote.port === client.port &&
      remote.address === address,
  )?.uid;
}

function readTable(file: string): string {
  try {
    return readFileSync(`/proc/net/${file}`, 'utf8');
  } catch (error) {
    // A kernel without IPv6 has no tables for it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

export function parseSockets(table: string): readonly KernelSocket[] {
  return table
    .split('\n')
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, local = '', remote = '', state = '', , , , uid = ''] = line.trim().split(/\s+/);
      return { local: endpoint(local), remote: endpoint(remote), state, uid: Number(uid) };
    });
}

/** `0100007F:3A99`: each 32 bits of the address in the byte order of the machine. */
function endpoint(hex: string): Endpoint {
  const [address = '', port = ''] = hex.split(':');
  const bytes = (address.match(/.{8}/g) ?? []).flatMap((word) =>
    [...Buffer.from(word, 'hex')].reverse(),
  );
  const text =
    bytes.length === 4
      ? bytes.join('.')
      : (Buffer.from(bytes).toString('hex').match(/.{4}/g) ?? []).join(':');
  return { address: sameForm(text), port: Number.parseInt(port, 16) };
}

function sameForm(address: string): string {
  return parseAddress(address)?.text ?? address;
}
