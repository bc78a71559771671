import { createServer, type Socket } from 'node:net';
import type { Outcome } from '../../../proxy/upstream/forwarding.ts';
import {
  type Cleanup,
  listening,
  raw,
  type TestProxy,
  until,
} from '../../support/sidecar/proxy.ts';

/**
 * Starts an upstream that works with raw bytes. It calls `talk` with each connection once the head of a
 * request has arrived.
 */
export function rawUpstream(
  cleanup: Cleanup,
  talk: (socket: Socket, head: string) => void,
): Promise<number> {
  const server = createServer((socket) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!text.includes('\r\n\r\n')) return;
      const head = text;
      text = '';
      talk(socket, head);
    });
  });
  return listening(server, cleanup);
}

/** Sends one request through the proxy; resolves with all received bytes. */
export function get(proxy: TestProxy, port: number, more = '', method = 'GET'): Promise<string> {
  return raw(
    proxy.port,
    `${method} http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n${more}\r\n`,
  );
}

export async function outcomeOf(proxy: TestProxy): Promise<Outcome> {
  await until(() => proxy.outcomes.length > 0, 'an outcome');
  const [outcome] = proxy.outcomes;
  if (outcome === undefined) throw new Error('no outcome');
  return outcome;
}

/** Returns the head of an upstream's response with these header lines. */
export const head = (lines: string) => `HTTP/1.1 200 OK\r\n${lines}\r\n`;
