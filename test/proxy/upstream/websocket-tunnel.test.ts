import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Outcome } from '../../../proxy/upstream/forwarding.ts';
import { createTunnelUpgrade } from '../../../proxy/upstream/websocket-tunnel.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';
import { Cleanup, raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { rawUpstream } from './raw-upstream.ts';
import { everythingIsHere } from './upstream-tls-stage.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

const switching =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n';

interface Asked {
  readonly port: number;
  readonly path?: string;
  readonly headers?: readonly string[];
  readonly filter?: ResponseFilter;
}

/**
 * Opens a WebSocket through a proxy that forwards it as the parameters specify; resolves with the
 * outcome.
 */
async function tunnelled({ port, path = '/ws', headers = [], filter }: Asked): Promise<Outcome> {
  const outcomes: Outcome[] = [];
  const guard = everythingIsHere();
  const tunnelUpgrade = createTunnelUpgrade({ guard, handshakeMs: 5_000, idleMs: 60_000 });
  const proxy = await startProxy(cleanup, {
    guard,
    onUpgrade: async ({ target, req, socket, head }) => {
      const outgoing = { ...target, path, method: 'GET', headers, body: null };
      const { signal } = new AbortController();
      const control = { signal, filter, responseHeaders: {}, onOpen: () => {} };
      outcomes.push(await tunnelUpgrade(outgoing, { req, socket, head }, control));
      socket.destroy();
    },
  });
  await raw(
    proxy.port,
    `GET http://127.0.0.1:${port}/ws HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  );
  await until(() => outcomes.length > 0);
  return outcomes[0] as Outcome;
}

describe('a WebSocket', () => {
  it.each(["/ws?name=O'Hara&&x=", '/ws/%7Euser?', '/a:b/@c'])(
    'is requested with exactly the path that was judged: %s',
    async (path) => {
      let asked = '';
      const port = await rawUpstream(cleanup, (socket, head) => {
        asked = head;
        socket.end(switching);
      });
      await tunnelled({ port, path });
      expect(asked.split('\r\n')[0]).toBe(`GET ${path} HTTP/1.1`);
    },
  );

  it('is refused if its request headers are invalid; nothing is sent', async () => {
    let connections = 0;
    const port = await rawUpstream(cleanup, (socket) => {
      connections++;
      socket.destroy();
    });
    expect(await tunnelled({ port, headers: ['x-tenant', 'a\u0100b'] })).toMatchObject({
      failure: 'upstream.upgrade_refused',
    });
    expect(connections).toBe(0);
  });

  it('ends if its filter fails, and the proxy continues', async () => {
    const port = await rawUpstream(cleanup, (socket) => {
      socket.write(switching);
      socket.write('\u0081\u0002hi');
    });
    const filter: ResponseFilter = {
      head: () => 'stream',
      chunk(bytes) {
        if (bytes.includes('hi')) throw new RangeError('too deep');
        return bytes;
      },
    };
    expect(await tunnelled({ port, filter })).toMatchObject({ failure: 'upstream.reset' });
  });
});
