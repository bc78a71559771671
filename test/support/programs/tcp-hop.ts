import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A TCP proxy in front of a server. It simulates failures of the network on demand. */
export interface TcpHop {
  readonly url: string;
  /** Sets the target of new connections. Closes existing connections, as in a failover. */
  leadTo(targetUrl: string): void;
  /** Delay of the server's responses, in milliseconds. */
  delayMs: number;
  /** After this many further bytes of responses, closes the connection that carries the next one. */
  cutAfterBytes(count: number): void;
  close(): Promise<void>;
}

export async function startTcpHop(targetUrl: string): Promise<TcpHop> {
  const sockets = new Set<Socket>();
  let target = new URL(targetUrl);
  let bytesLeft = Number.POSITIVE_INFINITY;
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    const cut = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', cut);
      socket.on('close', () => {
        sockets.delete(socket);
        cut();
      });
    }
    client.on('data', (chunk: Buffer) => upstream.write(chunk));
    const answer = (chunk: Buffer) => {
      if (client.destroyed) return;
      client.write(chunk.subarray(0, bytesLeft));
      bytesLeft -= chunk.length;
      if (bytesLeft >= 0) return;
      bytesLeft = Number.POSITIVE_INFINITY;
      client.end(cut);
    };
    upstream.on('data', (chunk: Buffer) => {
      if (hop.delayMs === 0) answer(chunk);
      else setTimeout(answer, hop.delayMs, chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening');
  const hop: TcpHop = {
    url: Object.assign(new URL(targetUrl), { port: String(address.port) }).href,
    leadTo(targetUrl) {
      target = new URL(targetUrl);
      cutAll();
    },
    delayMs: 0,
    cutAfterBytes(count) {
      bytesLeft = count;
    },
    async close() {
      cutAll();
      server.close();
      await once(server, 'close');
    },
  };
  return hop;
}
