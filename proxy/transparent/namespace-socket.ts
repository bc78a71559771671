import { once } from 'node:events';
import fs from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Log } from '../../shared/base/log.ts';

/** The socket's name in the sidecar's data directory. */
export const namespaceSocketName = 'redirected.sock';
/** The first message of a client. It carries the descriptors in the order of `NamespaceSockets`. */
export const namespaceGreeting = 'sallyport-namespace-1';

const namespacesMax = 64;
const greetingWithinMs = 5_000;
const socketsPerFamily = 3;
const descriptorsMax = 2 * socketsPerFamily;

/** Sockets of one address family in a network namespace, as descriptors that the receiver owns. */
export interface NamespaceSockets {
  readonly family: 'IPv4' | 'IPv6';
  /** Listening: connections that were redirected here. */
  readonly tcp: number;
  /** Listening: DNS over TCP. */
  readonly dnsTcp: number;
  /** Bound: DNS over UDP. */
  readonly dnsUdp: number;
}

/** The reason why the sidecar does not serve a network namespace. */
export type NamespaceRefusal =
  | 'run.isolation_greeting_invalid'
  | 'run.isolation_sockets_invalid'
  | 'run.isolation_sidecar_failed';

export type NamespaceAnswer = { readonly ca: string } | { readonly error: NamespaceRefusal };

interface NamespaceSocketOptions {
  readonly dataDir: string;
  /** Identifies this sidecar to the client. */
  readonly caSha256: string;
  /** Serves the sockets; the returned function closes them. */
  readonly serve: (sockets: readonly NamespaceSockets[]) => Promise<() => Promise<void>>;
  readonly log: Log;
}

/**
 * Accepts network namespaces of `sallyport run --isolated`. A client passes the listening sockets
 * of its network namespace (SCM_RIGHTS), so this process accepts the connections of that namespace
 * itself. The sockets are served until the client disconnects. Only the user of this process can
 * connect.
 */
export async function openNamespaceSocket(
  options: NamespaceSocketOptions,
): Promise<() => Promise<void>> {
  const clients = new Map<Socket, Promise<void>>();
  const server = createServer({ pauseOnConnect: true }, (client) => {
    client.on('error', () => {});
    const served = serveClient(client, options).finally(() => clients.delete(client));
    clients.set(client, served);
  });
  server.maxConnections = namespacesMax;
  await listenIn(server, options.dataDir);
  return async () => {
    server.close();
    for (const client of clients.keys()) client.destroy();
    await Promise.all(clients.values());
  };
}

/**
 * Listens on the socket. Its path contains a descriptor of the folder instead of the folder's path,
 * because the path of a Unix socket has at most 107 bytes.
 */
async function listenIn(server: Server, dataDir: string): Promise<void> {
  // The lock of the data directory makes sure that no other process has this socket.
  fs.rmSync(join(dataDir, namespaceSocketName), { force: true });
  const folder = fs.openSync(dataDir, fs.constants.O_DIRECTORY);
  const mask = process.umask(0o177);
  // `listen` binds the socket before it returns, so the umask applies to no other file.
  server.listen(`/proc/self/fd/${folder}/${namespaceSocketName}`);
  process.umask(mask);
  await once(server, 'listening');
  // libuv removes the socket by its path when the server closes.
  server.once('close', () => fs.closeSync(folder));
}

async function serveClient(client: Socket, options: NamespaceSocketOptions): Promise<void> {
  const answer = (value: NamespaceAnswer) => client.write(`${JSON.stringify(value)}\n`);
  const accepted = await acceptSockets(client).catch((error: unknown) => {
    options.log.warn({ err: error as Error }, 'cannot read the sockets of an isolated run');
    return 'run.isolation_sidecar_failed' as const;
  });
  if (typeof accepted === 'string') return refuse(accepted);
  if (client.destroyed) return closeAll(accepted);
  let close: () => Promise<void>;
  try {
    close = await options.serve(accepted);
  } catch (error) {
    options.log.warn({ err: error as Error }, 'cannot serve an isolated run');
    return refuse('run.isolation_sidecar_failed');
  }
  const closed = new Promise((resolve) => client.once('close', resolve));
  if (!client.destroyed) {
    answer({ ca: options.caSha256 });
    // The client is expected to send no further data. If it sends any, it is disconnected; if it
    // closes its side, it has ended.
    client.on('data', () => client.destroy()).resume();
    await closed;
  }
  await close();

  function refuse(error: NamespaceRefusal): void {
    options.log.warn({ code: error }, 'isolated run refused');
    answer({ error });
    client.destroySoon();
  }
}

async function closeAll(sockets: readonly NamespaceSockets[]): Promise<void> {
  const { closeDescriptors } = await import('./descriptors.ts');
  closeDescriptors(sockets.flatMap(({ tcp, dnsTcp, dnsUdp }) => [tcp, dnsTcp, dnsUdp]));
}

/** Reads the greeting and checks every descriptor. Closes the descriptors of a refused client. */
async function acceptSockets(client: Socket): Promise<NamespaceSockets[] | NamespaceRefusal> {
  // Loaded here, because a sidecar without isolated runs does not need the native module.
  const { closeDescriptors, receiveDescriptors } = await import('./descriptors.ts');
  const limits = { max: descriptorsMax, timeoutMs: greetingWithinMs };
  const message = await receiveDescriptors(client, limits);
  if (message === undefined) return 'run.isolation_greeting_invalid';
  const sockets = message.text === namespaceGreeting ? await byFamily(message.descriptors) : [];
  if (sockets !== undefined && sockets.length > 0) return sockets;
  closeDescriptors(message.descriptors);
  const isGreeted = message.text === namespaceGreeting;
  return isGreeted ? 'run.isolation_sockets_invalid' : 'run.isolation_greeting_invalid';
}

async function byFamily(descriptors: readonly number[]): Promise<NamespaceSockets[] | undefined> {
  const { socketKind } = await import('./descriptors.ts');
  const groups: NamespaceSockets[] = [];
  for (let at = 0; at < descriptors.length; at += socketsPerFamily) {
    const [tcp = -1, dnsTcp = -1, dnsUdp = -1] = descriptors.slice(at, at + socketsPerFamily);
    const [first, second, third] = [tcp, dnsTcp, dnsUdp].map(socketKind);
    const family = first?.family;
    if (family !== 'IPv4' && family !== 'IPv6') return undefined;
    if (groups.some((group) => group.family === family)) return undefined;
    const isListening = [first, second].every(
      (kind) => kind?.family === family && kind.type === 'stream' && kind.isListening,
    );
    if (!isListening || third?.family !== family || third.type !== 'datagram') return undefined;
    groups.push({ family, tcp, dnsTcp, dnsUdp });
  }
  return groups;
}
