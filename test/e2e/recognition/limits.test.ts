import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../../proxy/settings/config.ts';
import { startProgram, until } from '../../support/programs/processes.ts';
import { answerOnce, connectWithHello } from '../../support/sidecar/client-hello.ts';
import { listening } from '../../support/sidecar/proxy.ts';
import { headOf, rawClient, reasonOf } from '../../support/sidecar/raw-client.ts';
import { startTrafficStage, type TrafficStage } from '../../support/system/traffic-stage.ts';

const json = 'Content-Type: application/json\r\nConnection: close\r\n';

/** Every limit is far from its default, so that each refusal below is caused by the setting. */
const tight = {
  SALLYPORT_MAX_CONNECTIONS: '24',
  SALLYPORT_MAX_TUNNELS: '1',
  SALLYPORT_MAX_HELD_CALLS: '1',
  SALLYPORT_MAX_HEADER_BYTES: '2048',
  SALLYPORT_MAX_HEADERS: '12',
  SALLYPORT_MAX_BODY_BYTES: '64',
  SALLYPORT_HEAD_TIMEOUT_MS: '300',
  SALLYPORT_BODY_IDLE_MS: '300',
  SALLYPORT_TUNNEL_IDLE_MS: '700',
  SALLYPORT_UPSTREAM_CONNECT_MS: '400',
  SALLYPORT_UPSTREAM_TIMEOUT_MS: '400',
  SALLYPORT_UPSTREAM_IDLE_MS: '400',
  SALLYPORT_HOLD_MS: '60000',
};

function upstream(req: IncomingMessage, res: ServerResponse): void {
  req.resume();
  switch (req.url) {
    case '/silent':
      return;
    case '/half':
      res.writeHead(200, { 'content-length': '100' }).write('half');
      return;
    default:
      res.end('{}');
  }
}

describe('the configured limits of a sidecar', () => {
  let stage: TrafficStage;
  let passed: string;
  beforeAll(async () => {
    stage = await startTrafficStage(upstream, tight);
    const port = await listening(createServer(answerOnce), stage.cleanup);
    passed = `localhost:${port}`;
    await stage.separate.api('PUT', '/v1/runtime/bindings/model', {
      protocol: 'passthrough',
      host: passed,
    });
  }, 60_000);
  afterAll(() => stage?.close());

  const answerTo = async (bytes: string) => (await rawClient(stage.proxyPort, bytes)).closed;
  const pay = (body: string) =>
    headOf('POST', `${stage.bound.http}/pay`, `${json}Content-Length: ${body.length}\r\n`) + body;
  const idle = () =>
    until(
      'only the stage’s own agent is connected',
      async () => (await stage.metric('sallyport_connections')) <= 1,
    );

  it.each<[string, () => string, string]>([
    [
      'a body beyond SALLYPORT_MAX_BODY_BYTES',
      () => pay(`{"amount":1,"x":"${'a'.repeat(64)}"}`),
      'args.too_large',
    ],
    [
      'a chunked body beyond SALLYPORT_MAX_BODY_BYTES',
      () =>
        `${headOf('POST', `${stage.bound.http}/pay`, `${json}Transfer-Encoding: chunked\r\n`)}50\r\n{"amount":1,"x":"${'a'.repeat(63)}\r\n0\r\n\r\n`,
      'args.too_large',
    ],
    [
      'a head beyond SALLYPORT_MAX_HEADER_BYTES',
      () => headOf('GET', `${stage.open.http}/`, `X: ${'a'.repeat(2048)}\r\n`),
      'proxy.headers_too_large',
    ],
    [
      'more than SALLYPORT_MAX_HEADERS',
      () => headOf('GET', `${stage.open.http}/`, 'A: b\r\n'.repeat(12)),
      'proxy.headers_too_large',
    ],
    [
      'a head that is sent for longer than SALLYPORT_HEAD_TIMEOUT_MS',
      () => 'GET http://a',
      'proxy.request_timeout',
    ],
    [
      'a body that pauses for SALLYPORT_BODY_IDLE_MS',
      () => headOf('POST', `${stage.open.http}/`, 'Content-Length: 100000\r\n'),
      'proxy.request_timeout',
    ],
    [
      'an upstream without a response within SALLYPORT_UPSTREAM_TIMEOUT_MS',
      () => headOf('GET', `${stage.open.http}/silent`, 'Connection: close\r\n'),
      'upstream.timeout',
    ],
  ])('refuse %s with a specific reason', async (_what, bytes, reason) => {
    expect(reasonOf(await answerTo(bytes()))).toBe(reason);
  });

  it('accept a body within SALLYPORT_MAX_BODY_BYTES', async () => {
    expect(await answerTo(pay('{"amount":1}'))).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('abort a response that pauses for SALLYPORT_UPSTREAM_IDLE_MS', async () => {
    const answer = await answerTo(headOf('GET', `${stage.open.http}/half`));
    expect(answer).toContain('content-length: 100');
    expect(answer).toMatch(/\r\n\r\nhalf$/);
  });

  it('refuse a tunnel above SALLYPORT_MAX_TUNNELS, and end a tunnel that is silent for SALLYPORT_TUNNEL_IDLE_MS', async () => {
    const open = () => rawClient(stage.proxyPort, connectWithHello(passed, 'localhost'));
    const first = await open();
    await until('the first stands', () => first.text().includes('200 Connection'));
    expect(reasonOf(await (await open()).closed)).toBe('proxy.too_many_tunnels');
    await first.closed;
    // The slot is released when the end of the tunnel is recorded, which is shortly after the client sees the
    // end.
    await until('another stands', async () => {
      const next = await open();
      await until('it is answered', () => next.text().includes('\r\n\r\n'));
      next.socket.destroy();
      return next.text().includes('200 Connection');
    });
  });

  it('refuse a call above SALLYPORT_MAX_HELD_CALLS without opening an approval', async () => {
    const held = await rawClient(stage.proxyPort, pay('{"amount":20001}'));
    const waiting = async () => {
      const { body } = await stage.separate.api('GET', '/v1/approvals?status=pending');
      return JSON.stringify(body);
    };
    await until('it waits', async () => (await waiting()).includes('20001'));
    expect(reasonOf(await answerTo(pay('{"amount":20002}')))).toBe('proxy.too_many_held');
    expect(await waiting()).not.toContain('20002');
    held.socket.destroy();
    await idle();
    const next = await rawClient(stage.proxyPort, pay('{"amount":20003}'));
    await until('the next is held', async () => (await waiting()).includes('20003'));
    next.socket.destroy();
  });

  it('refuse connections above SALLYPORT_MAX_CONNECTIONS with a reason, even 2,000 at once with little memory', async () => {
    await idle();
    const before = stage.rss();
    const full = await Promise.all(Array.from({ length: 24 }, () => rawClient(stage.proxyPort)));
    const refused = await answerTo(headOf('GET', `${stage.open.http}/`));
    expect(reasonOf(refused)).toBe('proxy.too_many_connections');
    const attempts = Array.from({ length: 2_000 }, () => attempt(stage.proxyPort));
    await Promise.all(attempts);
    for (const { socket } of full) socket.destroy();
    await idle();
    expect(await answerTo(pay('{"amount":1}'))).toMatch(/^HTTP\/1\.1 200 /);
    expect(stage.rss() - before).toBeLessThan(60);
  });
});

/** Connects and sends a request; resolves when the request is answered or refused. */
function attempt(port: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.resume().once('close', () => resolve());
    socket.end('GET http://sallyport.internal/ HTTP/1.1\r\nHost: sallyport.internal\r\n\r\n');
  });
}

describe('an invalid limit', () => {
  const read = (env: Record<string, string>) => readConfig({ env, readFile: () => '' });

  it.each([
    ['SALLYPORT_MAX_CONNECTIONS', '0', 'connections from 1 to 65536'],
    ['SALLYPORT_MAX_TUNNELS', '-1', 'tunnels from 0 to 65536'],
    ['SALLYPORT_MAX_HELD_CALLS', 'many', 'calls from 0 to 65536'],
    ['SALLYPORT_MAX_HEADER_BYTES', '100', 'bytes from 1024 to 1048576'],
    ['SALLYPORT_MAX_HEADERS', '1e9', 'headers from 10 to 2000'],
    ['SALLYPORT_MAX_BODY_BYTES', '1GB', 'bytes from 1 to 16777216'],
    ['SALLYPORT_HEAD_TIMEOUT_MS', '0', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_BODY_IDLE_MS', '1.5', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_TUNNEL_IDLE_MS', '0', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_UPSTREAM_CONNECT_MS', '0', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_UPSTREAM_TIMEOUT_MS', '0', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_UPSTREAM_IDLE_MS', 'Infinity', 'milliseconds from 1 to 86400000'],
    ['SALLYPORT_DRAIN_MS', '-1', 'milliseconds from 0 to 86400000'],
  ])(
    'is refused at start with the name and the range of the setting: %s=%s',
    (name, value, range) => {
      expect(() => read({ [name]: value })).toThrow(`${name}: must be a whole number of ${range}`);
    },
  );

  it('makes the program exit with code 1 and print one line', async () => {
    const program = startProgram('proxy/start.ts', { SALLYPORT_MAX_BODY_BYTES: '1GB' });
    expect(await program.exited()).toBe(1);
    expect(program.output()).toBe(
      'sallyport: SALLYPORT_MAX_BODY_BYTES: must be a whole number of bytes from 1 to 16777216\n',
    );
  });
});
