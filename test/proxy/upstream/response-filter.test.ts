import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import { injectCredential } from '../../../shared/upstream/inject.ts';
import {
  asItCame,
  Cleanup,
  httpUpstream,
  startProxy,
  type TestProxy,
} from '../../support/sidecar/proxy.ts';
import { get, head, outcomeOf, rawUpstream } from './raw-upstream.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

describe('a filtered response', () => {
  const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
  const injected = (proxy: Parameters<typeof startProxy>[1] = {}) =>
    startProxy(cleanup, {
      ...proxy,
      filter: () => reflectionFilter([secret]),
      rewrite: (outgoing) =>
        injectCredential(outgoing, {
          id: 'c',
          version: 1,
          secret,
          inject: { in: 'bearer' },
          bind: { tools: [], hosts: [] },
        }),
    });

  it('is requested without compression, and with the injected credential in place of the agent’s own credential', async () => {
    const port = await httpUpstream(cleanup, (req, res) => {
      res.end(
        JSON.stringify([
          req.headers.authorization === `Bearer ${secret}`,
          req.headers['accept-encoding'],
        ]),
      );
    });
    const proxy = await injected();
    expect(
      await get(proxy, port, 'Authorization: Bearer mine\r\nAccept-Encoding: gzip, br\r\n'),
    ).toContain('[true,"identity"]');
  });

  it.each([
    ['in a header', (value: string) => ({ head: `X: ${value}\r\n`, body: '' })],
    ['in the body', (value: string) => ({ head: '', body: `you sent ${value}` })],
    [
      'in the body as base64',
      (value: string) => ({ head: '', body: Buffer.from(value).toString('base64') }),
    ],
  ])('does not reach the agent if it reflects the credential %s', async (_what, reflect) => {
    const port = await httpUpstream(cleanup, (req, res) => {
      const { head: line, body } = reflect(req.headers.authorization ?? '');
      if (line !== '') res.setHeader('X', line.slice(3, -2));
      res.write('harmless ');
      setTimeout(() => res.end(body), 20);
    });
    const proxy = await injected();
    const answer = await get(proxy, port);
    expect(answer).not.toContain(secret);
    expect(answer).not.toContain(Buffer.from(secret).toString('base64').slice(4, 20));
    expect((await outcomeOf(proxy)).failure).toBe('credential.reflected');
    expect(answer).toMatch(/^HTTP\/1\.1 502 [\s\S]*"reason_code":"credential\.reflected"/);
  });

  it('reaches the agent as it arrives, not only at its end', async () => {
    let answer: ServerResponse | undefined;
    const port = await httpUpstream(cleanup, (req, res) => {
      const isEvents = req.url === '/events';
      res.writeHead(200, { 'content-type': isEvents ? 'text/event-stream' : 'text/plain' });
      res.write('data: 1\n\n');
      answer = res;
    });
    const proxy = await injected();
    for (const path of ['/events', '/lines']) {
      const { body } = await request(`http://127.0.0.1:${port}${path}`, {
        dispatcher: new ProxyAgent({ uri: proxy.url, proxyTunnel: false }),
      });
      const [first] = (await once(body, 'data')) as [Buffer];
      expect(first.toString()).toBe('data: 1\n\n');
      answer?.end();
      await body.dump();
    }
  });

  it('is truncated before the credential if earlier bytes were already forwarded', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => {
      res.end(Buffer.concat([Buffer.alloc(200_000, 'a'), Buffer.from(secret)]));
    });
    const proxy = await injected();
    const answer = await get(proxy, port);
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).not.toContain(secret);
  });

  it('without the credential is forwarded unchanged, with its length', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => {
      res.writeHead(200, { 'content-length': '12' });
      res.write('sk_liv');
      setTimeout(() => res.end('e_4eC3'), 10);
    });
    const proxy = await injected();
    expect(await get(proxy, port)).toMatch(/content-length: 12\r\n[\s\S]*\r\n\r\nsk_live_4eC3$/);
  });

  it('has the length of the new body if a buffering filter replaces the body', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end('small'));
    const proxy = await startProxy(cleanup, {
      filter: () => ({
        head: () => 'buffer',
        whole: (bytes) => Buffer.from(`${bytes.toString()} and more`),
      }),
    });
    expect(await get(proxy, port)).toMatch(/content-length: 14\r\n[\s\S]*\r\n\r\nsmall and more$/i);
  });

  it('that is too large to be buffered is not forwarded', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end(Buffer.alloc(2000)));
    const proxy = await startProxy(cleanup, {
      filter: () => ({ head: () => 'buffer', whole: (bytes) => bytes, bytesMax: 1000 }),
    });
    expect(await get(proxy, port)).toMatch(/^HTTP\/1\.1 502 /);
    expect(await outcomeOf(proxy)).toMatchObject({
      failure: 'upstream.reset',
      detail: expect.stringContaining('1000 bytes'),
    });
  });

  it.each(['head', 'chunk', 'whole'] as const)(
    'is not forwarded if its filter throws in %s',
    async (where) => {
      const fail = () => {
        throw new Error('broken filter');
      };
      const port = await httpUpstream(cleanup, (_req, res) => res.end('secret'));
      const proxy = await startProxy(cleanup, {
        filter: () => ({
          head: where === 'head' ? fail : () => (where === 'chunk' ? 'stream' : 'buffer'),
          chunk: fail,
          whole: fail,
        }),
      });
      const answer = await get(proxy, port);
      expect(answer).not.toContain('secret');
      expect((await outcomeOf(proxy)).failure).toBe('upstream.reset');
    },
  );

  it('to a HEAD request keeps its length', async () => {
    const port = await rawUpstream(cleanup, (socket) =>
      socket.write(head('Content-Length: 100\r\n')),
    );
    const proxy = await startProxy(cleanup, {
      filter: () => ({ head: () => 'buffer', whole: (bytes) => bytes }),
    });
    expect(await get(proxy, port, '', 'HEAD')).toMatch(/Content-Length: 100\r\n/);
  });

  it('has the sidecar’s headers in place of upstream headers with the same names', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.setHeader('X-A', '1').end());
    const proxy: TestProxy = await startProxy(cleanup, {
      handle: async (exchange) => {
        const responseHeaders = { 'Sallyport-Decision': 'allow', 'x-a': '2' };
        await proxy.forward(asItCame(exchange), exchange.res, {
          signal: exchange.abort.signal,
          responseHeaders,
        });
      },
    });
    const answer = await get(proxy, port);
    expect(answer).toContain('Sallyport-Decision: allow\r\nx-a: 2\r\n');
    expect(answer).not.toContain('X-A: 1');
  });
});
