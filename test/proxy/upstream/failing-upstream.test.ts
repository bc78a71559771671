import { createServer, type Socket } from 'node:net';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Cleanup, listening, raw, startProxy } from '../../support/sidecar/proxy.ts';
import { get, head, outcomeOf, rawUpstream } from './raw-upstream.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

describe('an upstream that fails before it responds', () => {
  it.each<[string, (socket: Socket) => void, string]>([
    ['closes at once', (socket) => socket.end(), 'upstream.reset'],
    ['resets at once', (socket) => socket.resetAndDestroy(), 'upstream.reset'],
    ['closes within the head', (socket) => socket.end('HTTP/1.1 200 OK\r\nX: '), 'upstream.reset'],
    ['sends another protocol', (socket) => socket.end('220 smtp ready\r\n'), 'upstream.reset'],
    [
      'sends a huge header',
      (socket) => socket.end(head(`X: ${'a'.repeat(70_000)}\r\n`)),
      'upstream.reset',
    ],
    [
      'sends two lengths',
      (socket) => socket.end(`${head('Content-Length: 1\r\nContent-Length: 2\r\n')}ab`),
      'upstream.reset',
    ],
    [
      'sends a length and a transfer coding',
      (socket) =>
        socket.end(`${head('Content-Length: 1\r\nTransfer-Encoding: chunked\r\n')}0\r\n\r\n`),
      'upstream.reset',
    ],
    [
      'changes protocols although no upgrade was requested',
      (socket) => socket.end('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      'upstream.reset',
    ],
    [
      'sends 100 Continue endlessly',
      (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
      'upstream.reset',
    ],
  ])('results in 502, and none of its bytes reach the agent: %s', async (_what, talk, failure) => {
    const proxy = await startProxy(cleanup);
    const answer = await get(proxy, await rawUpstream(cleanup, talk));
    expect(answer).toMatch(/^HTTP\/1\.1 502 /);
    expect(answer).toContain(failure);
    expect(await outcomeOf(proxy)).toMatchObject({ failure, status: undefined, responseBytes: 0 });
  });

  it('results in 504 if it never responds', async () => {
    const proxy = await startProxy(cleanup, { timeouts: { headersMs: 100 } });
    const answer = await get(proxy, await rawUpstream(cleanup, () => {}));
    expect(answer).toMatch(/^HTTP\/1\.1 504 /);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.timeout');
  });

  it('results in 502 if nothing listens at its address', async () => {
    const server = createServer();
    const own = new Cleanup();
    const port = await listening(server, own);
    await own.run();
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toMatch(/^HTTP\/1\.1 502 /);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.unreachable');
  });

  it('results in 502 if its name does not exist', async () => {
    const proxy = await startProxy(cleanup);
    const answer = await raw(
      proxy.port,
      'GET http://no-such-host.invalid/ HTTP/1.1\r\nHost: no-such-host.invalid\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toContain('upstream.unreachable');
  });

  it('results in 403 if its address is in a range that is not allowed', async () => {
    const proxy = await startProxy(cleanup, { allowPrivate: [] });
    expect(await get(proxy, await rawUpstream(cleanup, () => {}))).toMatch(
      /^HTTP\/1\.1 403 .*proxy\.address_refused/s,
    );
  });
});

describe('an upstream that fails during its response', () => {
  it.each<[string, (socket: Socket) => void]>([
    [
      'resets',
      (socket) =>
        socket.write(`${head('Content-Length: 100\r\n')}part`, () =>
          setTimeout(() => socket.resetAndDestroy(), 20),
        ),
    ],
    [
      'ends before its Content-Length',
      (socket) => socket.end(`${head('Content-Length: 100\r\n')}part`),
    ],
    [
      'ends within a chunk',
      (socket) => socket.end(`${head('Transfer-Encoding: chunked\r\n')}64\r\npart`),
    ],
    [
      'ends without the last chunk',
      (socket) => socket.end(`${head('Transfer-Encoding: chunked\r\n')}4\r\npart\r\n`),
    ],
    [
      'sends a malformed chunk',
      (socket) => socket.end(`${head('Transfer-Encoding: chunked\r\n')}4\r\npart\r\nxyz\r\n`),
    ],
  ])('also breaks the agent’s connection: %s', async (_what, talk) => {
    const port = await rawUpstream(cleanup, talk);
    const proxy = await startProxy(cleanup);
    const agent = new ProxyAgent({ uri: proxy.url, proxyTunnel: false });
    cleanup.add(() => agent.destroy());
    const read = async () => {
      const answer = await request(`http://127.0.0.1:${port}/`, { dispatcher: agent });
      return answer.body.text();
    };
    await expect(read()).rejects.toThrow();
    expect(await outcomeOf(proxy)).toMatchObject({ failure: 'upstream.reset', status: 200 });
  });

  it('ends the agent’s response if the upstream stops sending', async () => {
    const port = await rawUpstream(cleanup, (socket) =>
      socket.write(`${head('Content-Length: 100\r\n')}part`),
    );
    const proxy = await startProxy(cleanup, { timeouts: { bodyIdleMs: 50 } });
    expect(await get(proxy, port)).toMatch(/part$/);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.timeout');
  });

  it('cannot send the agent more bytes than it declared', async () => {
    const port = await rawUpstream(cleanup, (socket) =>
      socket.write(`${head('Content-Length: 4\r\n')}parttoo much`),
    );
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toMatch(/\r\n\r\npart$/);
  });
});
