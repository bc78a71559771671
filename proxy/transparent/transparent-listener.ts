import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { listenError } from '../../shared/base/listen-error.ts';
import type { OriginalDestination } from './original-destination.ts';

interface AcceptOptions {
  readonly connectionsMax: number;
  readonly readDestination: (socket: Socket) => OriginalDestination | undefined;
  readonly onRedirected: (socket: Socket, destination: OriginalDestination) => void;
  /** Called for a connection to this port that no rule redirected. The connection is closed. */
  readonly onDirect: () => void;
}

interface TransparentListenerOptions extends AcceptOptions {
  /** The redirect rules send the agent's connections to this port; 0 selects any free port. */
  readonly port: number;
  readonly hosts: readonly string[];
}

export interface TransparentListener {
  readonly port: number;
  /** Accepts no more connections. Connections that were already accepted belong to the ingress. */
  close(): void;
}

/** Accepts connections that network rules redirected. Listens on the same port at each address in `hosts`. */
export async function startTransparentListener(
  options: TransparentListenerOptions,
): Promise<TransparentListener> {
  const servers: Server[] = [];
  const close = () => {
    for (const server of servers) server.close();
  };
  let { port } = options;
  try {
    for (const host of options.hosts) {
      const server = acceptingServer(options);
      server.listen({ host, port, ipv6Only: host.includes(':') });
      await once(server, 'listening').catch((error: Error) => {
        const setting = 'SALLYPORT_TRANSPARENT_PORT';
        throw listenError(error, { host, port, hostSetting: setting, portSetting: setting });
      });
      servers.push(server);
      ({ port } = server.address() as AddressInfo);
    }
  } catch (thrown) {
    close();
    throw thrown;
  }
  return { port, close };
}

/** Accepts redirected connections on a listening socket of another network namespace. */
export async function adoptTransparentListener(
  descriptor: number,
  options: AcceptOptions,
): Promise<() => void> {
  const server = acceptingServer(options);
  server.listen({ fd: descriptor });
  await once(server, 'listening');
  return () => server.close();
}

function acceptingServer(options: AcceptOptions): Server {
  const server = createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true }, (socket) =>
    accept(socket, options),
  );
  // The limit of this server alone; the ingress counts all connections of the agent.
  server.maxConnections = options.connectionsMax;
  return server;
}

function accept(socket: Socket, options: AcceptOptions): void {
  const destination = options.readDestination(socket);
  if (destination === undefined) {
    options.onDirect();
    socket.resetAndDestroy();
  } else options.onRedirected(socket, destination);
}
