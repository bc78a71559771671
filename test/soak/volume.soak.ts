import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTrafficStage, type TrafficStage } from '../support/system/traffic-stage.ts';

const mebi = 1024 ** 2;
const totalBytes = 1024 * mebi;
const piece = Buffer.alloc(256 * 1024, 'sallyport ');
const idleMs = 90_000;

let stage: TrafficStage;
beforeAll(async () => {
  stage = await startTrafficStage((req, res) => void upstream(req, res));
}, 120_000);
afterAll(() => stage?.close());

function* pieces() {
  for (let sent = 0; sent < totalBytes; sent += piece.length) yield piece;
}

async function upstream(req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.url === '/down') {
    res.writeHead(200, { 'content-length': totalBytes });
    Readable.from(pieces(), { highWaterMark: 1 }).pipe(res);
    return;
  }
  let bytes = 0;
  try {
    for await (const chunk of req) bytes += (chunk as Buffer).length;
    res.end(String(bytes));
  } catch {
    // The agent disconnected, so the sidecar ended its request.
  }
}

const transfers = {
  async down(url: string): Promise<number> {
    const { body } = await request(`${url}/down`, { dispatcher: stage.agent });
    let bytes = 0;
    for await (const chunk of body) bytes += (chunk as Buffer).length;
    return bytes;
  },
  async up(url: string): Promise<number> {
    const { body } = await request(`${url}/up`, {
      dispatcher: stage.agent,
      method: 'PUT',
      headers: { 'content-length': String(totalBytes) },
      body: Readable.from(pieces(), { highWaterMark: 1 }),
      headersTimeout: idleMs,
    });
    return Number(await body.text());
  },
};

describe('1 GiB of data through the sidecar', () => {
  it.each([
    ['http', 'down'],
    ['http', 'up'],
    ['https', 'down'],
    ['https', 'up'],
  ] as const)(
    'arrives completely over %s in the direction %s, and memory stays constant',
    async (scheme, way) => {
      // The first transfer fills the runtime's memory pools; later growth is caused by the sidecar.
      const cold = stage.rss();
      await transfers[way](stage.open[scheme]);
      const before = stage.rss();
      let most = before;
      const watch = setInterval(() => {
        most = Math.max(most, stage.rss());
      }, 50);
      const startedAt = performance.now();
      const bytes = await transfers[way](stage.open[scheme]);
      clearInterval(watch);
      const seconds = (performance.now() - startedAt) / 1000;
      const grown = most - before;
      process.stdout.write(
        `\n1 GiB ${scheme} ${way}: RSS ${cold.toFixed(0)} MiB, ${before.toFixed(0)} after the first, +${grown.toFixed(1)} at most within the second; ${(1024 / seconds).toFixed(0)} MiB/s\n`,
      );
      expect(bytes).toBe(totalBytes);
      expect(grown).toBeLessThan(60);
      expect(most - cold).toBeLessThan(160);
    },
  );
});

describe('a disconnect of the agent', () => {
  it.each(['down', 'up'] as const)(
    'during a transfer (%s) releases the upstream connection',
    async (way) => {
      const stop = new AbortController();
      let passed = 0;
      const body = Readable.from(
        (function* () {
          for (const part of pieces()) {
            passed += part.length;
            if (passed > 64 * mebi) stop.abort();
            yield part;
          }
        })(),
        { highWaterMark: 1 },
      );
      const { agent: dispatcher, open } = stage;
      const { signal } = stop;
      if (way === 'up') {
        const sending = request(`${open.https}/up`, { dispatcher, signal, method: 'PUT', body });
        await expect(sending).rejects.toThrow();
      } else {
        const answer = await request(`${open.https}/down`, { dispatcher, signal });
        answer.body.on('error', () => {});
        await once(answer.body, 'data');
        stop.abort();
      }
      await expect
        .poll(() => stage.metric('sallyport_calls_in_flight'), { timeout: 20_000 })
        .toBe(0);
    },
  );
});
