import { once } from 'node:events';
import fs from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import {
  closeDescriptors,
  descriptorOf,
  openUdpDescriptor,
  sendDescriptors,
} from '../../proxy/transparent/descriptors.ts';
import {
  type NamespaceAnswer,
  namespaceGreeting,
  namespaceSocketName,
} from '../../proxy/transparent/namespace-socket.ts';
import { runTool } from '../network/run-tool.ts';
import { IsolationError } from './isolation-error.ts';

/** Arbitrary port numbers: only the rules below use them. */
const port = 15_001;
const dnsPort = 15_053;
/**
 * Addresses of the namespace's only interface. Without them, resolvers would conclude that the
 * machine has no network. RFC 7600 section 4.8 reserves the first for such uses.
 */
const own = { IPv4: '192.0.0.8', IPv6: 'fd53:616c:6c79:706f:7274:ffff:0:1' } as const;
const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const;
type Family = keyof typeof own;
const answerWithinMs = 10_000;

/**
 * Gives the network namespace its routes and rules. The rules redirect packets to the sidecar's
 * sockets. The only interface is `lo`, so no packet can leave the namespace, whatever the rules
 * say.
 */
export async function prepareNetwork(): Promise<readonly Family[]> {
  const families: Family[] = fs.existsSync('/proc/net/if_inet6') ? ['IPv4', 'IPv6'] : ['IPv4'];
  await runTool('ip', ['link', 'set', 'lo', 'up']);
  for (const family of families) {
    const [option, bits] = family === 'IPv4' ? ['-4', 32] : ['-6', 128];
    const lines = [
      `address add ${own[family]}/${bits} dev lo ${family === 'IPv6' ? 'nodad' : ''}`,
      `route add default dev lo src ${own[family]}`,
    ];
    await runTool('ip', [option, '-batch', '-'], `${lines.join('\n')}\n`);
  }
  await runTool('nft', ['-f', '-'], rules);
  return families;
}

const rules = `table inet sallyport {
	chain to_sidecar {
		type nat hook output priority -110; policy accept;
		udp dport 53 redirect to :${dnsPort}
		tcp dport 53 redirect to :${dnsPort}
		ip daddr 127.0.0.0/8 return
		ip6 daddr ::1 return
		meta l4proto tcp redirect to :${port}
	}
	chain outgoing {
		type filter hook output priority 0; policy drop;
		ip daddr { 127.0.0.0/8, ${own.IPv4} } accept
		ip6 daddr { ::1, ${own.IPv6} } accept
		meta l4proto tcp reject with tcp reset
		reject
	}
}
`;

/**
 * Opens the sockets to which the rules redirect, and passes them to the sidecar, which then accepts
 * the connections of this namespace itself. Returns the connection to the sidecar: it serves the
 * sockets while this connection is open.
 */
export async function connectSidecar({
  families,
  sidecarFolder,
  caSha256,
}: {
  readonly families: readonly Family[];
  readonly sidecarFolder: string;
  readonly caSha256: string;
}): Promise<Socket> {
  const sidecar = await dial(sidecarFolder);
  const opened = await Promise.all(families.map(openSockets));
  const descriptors = opened.flatMap((sockets) => sockets.descriptors);
  sendDescriptors(sidecar, { text: namespaceGreeting, descriptors });
  const answer = await answerOf(sidecar);
  // The sidecar has copies of these descriptors. When the sidecar ends, its copies are closed, and
  // connections are refused.
  for (const { close } of opened) close();
  if ('error' in answer) throw new IsolationError(answer.error);
  if (answer.ca !== caSha256) throw new IsolationError('run.isolation_other_sidecar');
  return sidecar;
}

async function dial(sidecarFolder: string): Promise<Socket> {
  let folder: number | undefined;
  try {
    folder = fs.openSync(sidecarFolder, fs.constants.O_DIRECTORY);
    // The path contains a descriptor of the folder, because the path of a Unix socket has at most
    // 107 bytes.
    const socket = connect(`/proc/self/fd/${folder}/${namespaceSocketName}`);
    await once(socket, 'connect');
    return socket;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const path = join(sidecarFolder, namespaceSocketName);
    throw new IsolationError('run.isolation_socket_missing', `${path}: ${code}.`, { cause });
  } finally {
    if (folder !== undefined) fs.closeSync(folder);
  }
}

async function answerOf(sidecar: Socket): Promise<NamespaceAnswer> {
  try {
    const [line] = (await once(sidecar, 'data', {
      signal: AbortSignal.timeout(answerWithinMs),
    })) as [Buffer];
    return JSON.parse(line.toString()) as NamespaceAnswer;
  } catch (cause) {
    const detail = `No answer of the sidecar: ${(cause as Error).message}.`;
    throw new IsolationError('run.isolation_sidecar_failed', detail, { cause });
  }
}

async function openSockets(family: Family) {
  const host = loopback[family];
  const servers = [await listening(host, port), await listening(host, dnsPort)];
  const udp = openUdpDescriptor(family, dnsPort);
  const close = () => {
    for (const server of servers) server.close();
    closeDescriptors([udp]);
  };
  return { descriptors: [...servers.map(descriptorOf), udp], close };
}

async function listening(host: string, at: number): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port: at, ipv6Only: host.includes(':') });
  await once(server, 'listening');
  return server;
}
