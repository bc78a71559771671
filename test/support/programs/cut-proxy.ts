import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * A TCP proxy in front of a server. It can lose responses: requests then reach the server, but the
 * client receives no response.
 */
export interface CutProxy {
  readonly url: string;
  /**
   * Loses the response to the next request that contains `text`, and closes its connection. With
   * `stay-down`, also closes all other connections and refuses new ones.
   */
  loseAnswerTo(text: string, then?: 'stay-down'): void;
  /** While true, new connections are refused. */
  isDown: boolean;
  close(): Promise<void>;
}

export async function startCutProxy(targetUrl: string): Promise<CutProxy> {
  const target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  let wanted: string | undefined;
  let staysDown = false;
  let isDown = false;
  const setDown = (down: boolean) => {
    isDown = down;
    if (down) for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    if (isDown) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(target.port), target.hostname);
    let isLost = false;
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
    client.on('data', (chunk: Buffer) => {
      if (wanted !== undefined && chunk.includes(wanted)) {
        wanted = undefined;
        isLost = true;
      }
      upstream.write(chunk);
    });
    // The response shows that the server has executed the request.
    upstream.on('data', (chunk: Buffer) => {
      if (!isLost) {
        client.write(chunk);
        return;
      }
      cut();
      if (staysDown) setDown(true);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening');
  const url = new URL(targetUrl);
  url.port = String(address.port);
  return {
    url: url.href,
    loseAnswerTo(text, then) {
      wanted = text;
      staysDown = then === 'stay-down';
    },
    get isDown() {
      return isDown;
    },
    set isDown(down) {
      setDown(down);
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
