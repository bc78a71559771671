import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { answerOnce, connectWithHello } from '../../support/sidecar/client-hello.ts';
import { listening } from '../../support/sidecar/proxy.ts';
import { headOf, rawClient } from '../../support/sidecar/raw-client.ts';
import { startWebSocketEcho } from '../../support/sidecar/websocket-echo.ts';
import { startTrafficStage, type TrafficStage } from '../../support/system/traffic-stage.ts';

const drainMs = 20_000;
/**
 * Much shorter than the drain limit: a sidecar that exits within this time did not wait for endless
 * connections.
 */
const promptMs = 12_000;

describe('SIGTERM to a sidecar', () => {
  let stage: TrafficStage;
  let answers = new Map<string, ServerResponse>();
  let hasEnded = false;
  beforeAll(async () => {
    const upstream = (req: IncomingMessage, res: ServerResponse) => {
      req.resume();
      if (req.url === '/pay') {
        res.end('{}');
        return;
      }
      if (req.url?.startsWith('/events')) {
        res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      }
      answers.set(`${req.method} ${req.url}`, res);
    };
    stage = await startTrafficStage(upstream, { SALLYPORT_DRAIN_MS: String(drainMs) });
  }, 60_000);
  afterAll(() => stage?.close());
  beforeEach(async () => {
    answers = new Map();
    if (hasEnded) await stage.separate.restartSidecar();
    hasEnded = true;
  }, 30_000);

  const send = (method: string, path: string, headers = '') =>
    rawClient(stage.proxyPort, headOf(method, `${stage.open.http}${path}`, headers));
  const arrived = (what: string) => until(`${what} is under way`, () => answers.has(what));

  /**
   * Returns how each call ended, according to the ledger. Call it after the sidecar has uploaded
   * its spool.
   */
  async function endings(): Promise<(string | undefined)[]> {
    const client = new pg.Client({ connectionString: stage.databaseUrl });
    await client.connect();
    try {
      const { rows } = await client.query<{ reason: string | null }>(
        `select canonical::json ->> 'reason_code' as reason from evidence_row
         where type = 'execution.result' order by position`,
      );
      return rows.map(({ reason }) => reason ?? undefined);
    } finally {
      await client.end();
    }
  }

  it('makes the readiness check fail at once, completes calls, closes their connections, and exits with 0', async () => {
    const call = await send('POST', '/slow', 'Content-Length: 0\r\n');
    await arrived('POST /slow');
    const exit = stage.separate.sidecar.stop();
    const readyz = () => fetch(`${stage.separate.adminUrl}/readyz`);
    await until('it is not ready', async () => (await readyz()).status === 503);
    expect(await (await readyz()).json()).toMatchObject({
      reasons: ['The sidecar is shutting down.'],
    });
    expect((await fetch(`${stage.separate.adminUrl}/healthz`)).status).toBe(200);
    // The sidecar accepts no new call, because a pod stops its sidecar only after the agent has ended.
    const late = await send('GET', '/late');
    expect(await late.closed).toBe('');
    answers.get('POST /slow')?.end('finished');
    const answer = await call.closed;
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*finished/);
    expect(answer.toLowerCase()).toContain('connection: close');
    expect(await exit).toBe(0);
    expect(await endings()).toContain(undefined);
  });

  it('ends open streams, tunnels and WebSockets, and records each of them', async () => {
    const echo = await startWebSocketEcho();
    stage.cleanup.add(() => echo.close());
    const silent = `localhost:${await listening(createServer(answerOnce), stage.cleanup)}`;
    const { api } = stage.separate;
    await api('PUT', '/v1/runtime/bindings/model', { protocol: 'passthrough', host: silent });
    await api('PUT', '/v1/runtime/bindings/live', {
      protocol: 'http',
      host: `127.0.0.1:${echo.port}`,
      method: 'GET',
      path: '/live',
      body: 'none',
      tool: 'http.get.127.0.0.1',
      resource: 'feed:main',
      upgrade: true,
    });
    const socketHead = headOf(
      'GET',
      `http://127.0.0.1:${echo.port}/live`,
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n',
    );
    const opened = async (bytes: string, sign: string) => {
      let client = await rawClient(stage.proxyPort, bytes);
      await until(`${sign} stands`, async () => {
        if (client.text().includes(sign)) return true;
        if (client.socket.destroyed || client.text() !== '') {
          client.socket.destroy();
          client = await rawClient(stage.proxyPort, bytes);
        }
        return false;
      });
      return client;
    };
    // Before the passthrough binding is active, the CONNECT would be intercepted, which also returns 200.
    await until('the bindings are in force', async () => {
      const manifest = await rawClient(
        stage.proxyPort,
        headOf('GET', 'http://sallyport.internal/manifest', 'Connection: close\r\n'),
      );
      await manifest.closed;
      return ['"model"', '"live"'].every((name) => manifest.text().includes(name));
    });
    const tunnel = await opened(connectWithHello(silent, 'localhost'), '200 Conn');
    const socket = await opened(socketHead, '101 Switching');
    const streams = await Promise.all(
      Array.from({ length: 20 }, (_, index) => send('GET', `/events/${index}`)),
    );
    await until('all stream', () => streams.every((one) => one.text().includes('data: 1')));

    const startedAt = performance.now();
    const exit = stage.separate.sidecar.stop();
    for (const stream of streams) {
      // The last chunk has arrived, so the stream ended normally.
      expect(await stream.closed).toMatch(/data: 1\n\n\r\n0\r\n\r\n$/);
    }
    await Promise.all([tunnel.closed, socket.closed]);
    expect(await exit).toBe(0);
    expect(performance.now() - startedAt).toBeLessThan(promptMs);
    // Records that could not be uploaded in time remain on disk until the next start.
    await stage.separate.restartSidecar();
    hasEnded = false;
    await until('each is recorded', async () => {
      const drained = (await endings()).filter((reason) => reason === 'proxy.draining');
      return drained.length === 22;
    });
  });

  it('lets a call complete if its response is an event stream', async () => {
    const call = await send('POST', '/events/answer', 'Content-Length: 0\r\n');
    await until('it streams', () => call.text().includes('data: 1'));
    const exit = stage.separate.sidecar.stop();
    await until('it drains', async () => {
      return (await fetch(`${stage.separate.adminUrl}/readyz`)).status === 503;
    });
    answers.get('POST /events/answer')?.end('data: result\n\n');
    expect(await call.closed).toContain('data: result');
    expect(await exit).toBe(0);
  });

  it('ends the sidecar at once if the signal is sent twice; the evidence is sealed after the next start', async () => {
    await send('POST', '/slow', 'Content-Length: 0\r\n');
    await arrived('POST /slow');
    const exit = stage.separate.sidecar.stop();
    await until('it drains', async () => {
      return (await fetch(`${stage.separate.adminUrl}/readyz`)).status === 503;
    });
    void stage.separate.sidecar.stop();
    expect(await exit).toBe(1);
    await stage.separate.restartSidecar();
    await until('the decision is sealed', async () => {
      const { body } = await stage.separate.api('GET', '/v1/evidence/events?limit=1000');
      return JSON.stringify(body).includes('traffic.open');
    });
    expect((await stage.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
  });
});

describe('SALLYPORT_DRAIN_MS', () => {
  it('limits the time for calls to complete; interrupted calls are recorded, and the exit code is 0', async () => {
    let begun = false;
    const stage = await startTrafficStage(
      (req, res) => {
        req.resume();
        if (req.url === '/pay') res.end('{}');
        else begun = true;
      },
      { SALLYPORT_DRAIN_MS: '300' },
    );
    try {
      const call = await rawClient(stage.proxyPort, headOf('GET', `${stage.open.http}/never`));
      await until('it is under way', () => begun);
      const startedAt = performance.now();
      expect(await stage.separate.sidecar.stop()).toBe(0);
      expect(performance.now() - startedAt).toBeLessThan(8_000);
      expect(await call.closed).toBe('');
      await until('how it ended is sealed', async () => {
        const { body } = await stage.separate.api('GET', '/v1/evidence/events?limit=1000');
        return JSON.stringify(body).includes('client_gone');
      });
    } finally {
      await stage.close();
    }
  }, 90_000);
});
