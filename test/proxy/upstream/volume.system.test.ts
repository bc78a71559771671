import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import {
  Cleanup,
  httpsUpstream,
  httpUpstream,
  temporaryFolder,
  until,
} from '../../support/sidecar/proxy.ts';

const mebi = 1024 * 1024;
const totalBytes = 200 * mebi;
const piece = Buffer.alloc(64 * 1024, 'sallyport');

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

/** Starts ingress and forwarder in a separate process, so that their memory can be measured. */
async function startAlone() {
  const dataDir = temporaryFolder(cleanup);
  const authority = loadAuthority({ dataDir, clock: systemClock });
  const program = join(import.meta.dirname, '../../bench/baselines/bare-sidecar.ts');
  const child = spawn(process.execPath, [program], {
    env: { BENCH_DATA: dataDir, BENCH_CA: authority.certPem },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  cleanup.add(async () => {
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const { port } = JSON.parse(line.toString()) as { port: number };
  const rssBytes = () => {
    const pages = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'));
    return Number(pages?.[1]) * 1024;
  };
  const agent = new ProxyAgent({
    uri: `http://127.0.0.1:${port}`,
    proxyTunnel: false,
    requestTls: { ca: authority.certPem },
  });
  cleanup.add(() => agent.destroy());
  return { authority, agent, rssBytes };
}

function* pieces() {
  for (let sent = 0; sent < totalBytes; sent += piece.length) yield piece;
}

function digestOfAll(): string {
  const hash = createHash('sha256');
  for (const part of pieces()) hash.update(part);
  return hash.digest('hex');
}

async function upstreamListener(req: IncomingMessage, res: ServerResponse): Promise<void> {
  if (req.method === 'GET') {
    res.writeHead(200, { 'content-length': totalBytes });
    Readable.from(pieces()).pipe(res);
    return;
  }
  const hash = createHash('sha256');
  for await (const chunk of req) hash.update(chunk);
  res.end(hash.digest('hex'));
}

describe('200 MB through the proxy', () => {
  it.each(['http', 'https'] as const)(
    'arrive completely over %s, down and up, and memory stays constant',
    async (scheme) => {
      const { authority, agent, rssBytes } = await startAlone();
      const port =
        scheme === 'http'
          ? await httpUpstream(cleanup, upstreamListener)
          : await httpsUpstream(cleanup, authority, upstreamListener);
      const url = `${scheme}://127.0.0.1:${port}/`;
      let most = 0;
      const watch = setInterval(() => {
        most = Math.max(most, rssBytes());
      }, 20);
      cleanup.add(() => clearInterval(watch));
      const downAndUp = async () => {
        const down = createHash('sha256');
        const answer = await request(url, { dispatcher: agent });
        for await (const chunk of answer.body) down.update(chunk);
        expect(down.digest('hex')).toBe(digestOfAll());
        const body = Readable.from(pieces());
        const up = await request(url, { dispatcher: agent, method: 'PUT', body });
        expect(await up.body.text()).toBe(digestOfAll());
      };
      // The first pass fills the memory pools of the runtime; later growth is caused by the sidecar.
      await downAndUp();
      const first = most;
      await downAndUp();
      expect((most - first) / mebi).toBeLessThan(80);
      expect(most / mebi).toBeLessThan(300);
    },
    60_000,
  );

  it('are subject to backpressure: a slow agent slows the upstream, and a slow upstream slows the agent', async () => {
    const { agent, rssBytes } = await startAlone();
    let produced = 0;
    let consuming: IncomingMessage | undefined;
    const port = await httpUpstream(cleanup, (req, res) => {
      if (req.method === 'PUT') {
        consuming = req.pause();
        return;
      }
      res.writeHead(200);
      const counted = Readable.from(
        (function* () {
          for (const part of pieces()) {
            produced += part.length;
            yield part;
          }
        })(),
      );
      counted.pipe(res);
    });
    const url = `http://127.0.0.1:${port}/`;
    const before = rssBytes();
    const answer = await request(url, { dispatcher: agent });
    answer.body.pause();
    await settled(() => produced);
    expect(produced).toBeLessThan(40 * mebi);
    answer.body.destroy();
    answer.body.on('error', () => {});

    let sent = 0;
    const body = Readable.from(
      (function* () {
        for (const part of pieces()) {
          sent += part.length;
          yield part;
        }
      })(),
    );
    request(url, { dispatcher: agent, method: 'PUT', body }).catch(() => {});
    await until(() => consuming !== undefined);
    await settled(() => sent);
    expect(sent).toBeLessThan(40 * mebi);
    expect((rssBytes() - before) / mebi).toBeLessThan(120);
  }, 60_000);
});

/** Resolves when a number has stopped growing. */
async function settled(value: () => number): Promise<void> {
  let last = -1;
  while (last !== value()) {
    last = value();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}
