import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Outcome } from '../../../proxy/upstream/forwarding.ts';
import {
  asItCame,
  Cleanup,
  httpUpstream,
  raw,
  startProxy,
  type TestProxy,
  until,
} from '../../support/sidecar/proxy.ts';
import { outcomeOf } from './raw-upstream.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

describe('a streamed response', () => {
  it('reaches the agent at once: first the head, and then each event as it is sent', async () => {
    let emit: (text: string) => void = () => {};
    const port = await httpUpstream(cleanup, (_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      emit = (text) => res.write(text);
    });
    const proxy = await startProxy(cleanup, { timeouts: { bodyIdleMs: 30 } });
    const agent = new ProxyAgent({ uri: proxy.url, proxyTunnel: false });
    cleanup.add(() => agent.destroy());
    const answer = await request(`http://127.0.0.1:${port}/`, { dispatcher: agent });
    const events = answer.body[Symbol.asyncIterator]();
    const latencies: number[] = [];
    for (let index = 0; index < 20; index++) {
      const start = performance.now();
      emit(`data: ${index}\n\n`);
      const { value } = await events.next();
      latencies.push(performance.now() - start);
      expect(String(value)).toBe(`data: ${index}\n\n`);
    }
    latencies.sort((a, b) => a - b);
    expect(latencies[10]).toBeLessThan(10);
    // A pause is not a failure of an event stream, even if the limit for other responses is short.
    await new Promise((resolve) => setTimeout(resolve, 100));
    emit('data: late\n\n');
    expect(String((await events.next()).value)).toBe('data: late\n\n');
  });

  it('is ended at the upstream if the agent disconnects', async () => {
    let gone = false;
    const port = await httpUpstream(cleanup, (_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      res.on('close', () => {
        gone = true;
      });
    });
    const proxy = await startProxy(cleanup);
    const pending = raw(
      proxy.port,
      `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`,
      100,
    );
    await pending;
    await until(() => gone, 'the end of the stream');
    expect((await outcomeOf(proxy)).failure).toBe('client_gone');
  });

  it('is ended if the agent stops reading, whether the response is an event stream or not', async () => {
    for (const type of ['text/event-stream', 'text/plain']) {
      const port = await httpUpstream(cleanup, (_req, res) => {
        res.writeHead(200, { 'content-type': type });
        const more = () => {
          while (res.write(Buffer.alloc(65_536)));
          res.once('drain', more);
        };
        more();
      });
      const proxy = await startProxy(cleanup, { timeouts: { bodyIdleMs: 100 } });
      const { connect } = await import('node:net');
      const socket = connect(proxy.port, '127.0.0.1');
      cleanup.add(() => socket.destroy());
      socket.on('error', () => {});
      socket.pause();
      socket.write(`GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      expect(await outcomeOf(proxy)).toMatchObject({
        failure: 'client_gone',
        detail: 'The agent stopped reading.',
      });
    }
  });

  it('can be aborted: before its head, the agent receives nothing; later, the response stays incomplete', async () => {
    const stop = new AbortController();
    const port = await httpUpstream(cleanup, (req, res) => {
      if (req.url === '/head') res.writeHead(200).write('begin');
    });
    const outcomes: Outcome[] = [];
    const proxy: TestProxy = await startProxy(cleanup, {
      handle: async (exchange) => {
        const outcome = await proxy.forward(asItCame(exchange), exchange.res, {
          signal: stop.signal,
        });
        outcomes.push(outcome);
        if (!exchange.res.headersSent) exchange.res.writeHead(403).end('stopped');
      },
    });
    const [before, within] = [
      raw(
        proxy.port,
        `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`,
      ),
      raw(
        proxy.port,
        `GET http://127.0.0.1:${port}/head HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`,
      ),
    ];
    setTimeout(() => stop.abort(), 50);
    expect(await before).toMatch(/^HTTP\/1\.1 403 [\s\S]*stopped/);
    expect(await within).toMatch(/begin\r\n$/);
    expect(outcomes.map(({ failure }) => failure)).toEqual(['client_gone', 'client_gone']);
    const late = await raw(
      proxy.port,
      `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`,
    );
    expect(late).toContain('stopped');
  });
});
