import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Outcome } from '../../../proxy/upstream/forwarding.ts';
import { createTunnelUpgrade } from '../../../proxy/upstream/websocket-tunnel.ts';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import { Cleanup, raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { rawUpstream } from './raw-upstream.ts';
import { certificateFor, countingServer, everythingIsHere } from './upstream-tls-stage.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const switching = (more = '') =>
  `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n${more}\r\n`;
/** Builds a text frame from a server, which is not masked (RFC 6455, section 5.2). */
const frame = (text: string) =>
  Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);

/** Starts a proxy that tunnels every upgrade with the credential, and records the outcomes of its tunnels. */
async function tunnelling(scheme: 'http' | 'https' = 'http') {
  const outcomes: Outcome[] = [];
  const guard = everythingIsHere();
  const tunnelUpgrade = createTunnelUpgrade({ guard, handshakeMs: 5_000, idleMs: 60_000 });
  const proxy = await startProxy(cleanup, {
    guard,
    onUpgrade: async ({ target, req, socket, head }) => {
      const headers = ['authorization', `Bearer ${secret}`];
      const outgoing = { ...target, scheme, method: 'GET', headers, body: null };
      const { signal } = new AbortController();
      const control = { signal, filter: reflectionFilter([secret]), responseHeaders: {} };
      const connection = { req, socket, head };
      outcomes.push(await tunnelUpgrade(outgoing, connection, { ...control, onOpen: () => {} }));
      socket.destroy();
    },
  });
  const open = (port: number) =>
    raw(
      proxy.port,
      `GET http://127.0.0.1:${port}/ws HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n`,
    );
  return { open, outcomes };
}

describe('a WebSocket whose call carries a credential', () => {
  it.each<[string, string | readonly (string | Buffer)[]]>([
    ['in the handshake response', switching(`X-Echo: ${secret}\r\n`)],
    ['in a frame', [switching(), frame(`you sent ${secret}`)]],
    [
      'in a frame that arrives in pieces',
      [switching(), frame(secret).subarray(0, 12), frame(secret).subarray(12)],
    ],
    ['after frames without it', [switching(), frame('hello'), frame(`{"t":"${secret}"}`)]],
  ])('is closed if the upstream reflects the credential: %s', async (_what, parts) => {
    const port = await rawUpstream(cleanup, async (socket) => {
      for (const part of [parts].flat()) {
        if (!socket.destroyed) socket.write(part);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    const { open, outcomes } = await tunnelling();
    expect(await open(port)).not.toContain(secret.slice(0, 12));
    await until(() => outcomes.length > 0);
    expect(outcomes[0]?.failure).toBe('credential.reflected');
  });

  it.each(['200 OK', '401 Unauthorized', '500 Oops'])(
    'does not return a response other than 101 to the agent: %s',
    async (status) => {
      const port = await rawUpstream(cleanup, (socket) =>
        socket.end(
          `HTTP/1.1 ${status}\r\nX-Echo: ${secret}\r\nConnection: close\r\n\r\nyou sent ${secret}`,
        ),
      );
      const { open, outcomes } = await tunnelling();
      expect(await open(port)).toBe('');
      await until(() => outcomes.length > 0);
      expect(outcomes[0]).toMatchObject({
        status: Number(status.slice(0, 3)),
        failure: 'upstream.upgrade_refused',
      });
    },
  );

  it('forwards harmless messages uncompressed, and removes headers that would let the agent bypass the proxy', async () => {
    let asked = '';
    const port = await rawUpstream(cleanup, (socket, head) => {
      asked = head;
      socket.write(switching('Alt-Svc: h3=":443"\r\nSallyport-Decision: allow\r\nX-Ok: 1\r\n'));
      socket.end(frame('hello'));
    });
    const { open, outcomes } = await tunnelling();
    const answer = await open(port);
    expect(answer).toMatch(/^HTTP\/1\.1 101 [\s\S]*hello$/);
    expect(answer).toMatch(/x-ok: 1/i);
    expect(answer).not.toMatch(/alt-svc|sallyport/i);
    expect(asked).not.toMatch(/sec-websocket-extensions/i);
    expect(asked).toContain(`Bearer ${secret}`);
    await until(() => outcomes.length > 0);
    expect(outcomes[0]).toMatchObject({ status: 101 });
    expect(outcomes[0]?.failure).toBeUndefined();
  });

  it('is not sent to an upstream whose certificate is not valid', async () => {
    const { port, received } = await countingServer(cleanup, certificateFor('127.0.0.1'));
    const { open, outcomes } = await tunnelling('https');
    expect(await open(port)).toBe('');
    await until(() => outcomes.length > 0);
    expect(outcomes[0]?.failure).toBe('upstream.certificate_untrusted');
    expect(received.bytes).toBe(0);
  });
});
