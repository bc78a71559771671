import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { listening } from '../../support/sidecar/proxy.ts';
import { headOf, rawClient, reasonOf } from '../../support/sidecar/raw-client.ts';
import { startTrafficStage, type TrafficStage } from '../../support/system/traffic-stage.ts';

const key = 'AAAAAAAAAAAAAAAAAAAAAA==';
const acceptOf = (sent: string) =>
  createHash('sha1').update(`${sent}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
const accepted = `Sec-WebSocket-Accept: ${acceptOf(key)}\r\n`;
const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n';
const opening = `${switching}Upgrade: websocket\r\n${accepted}`;
const handshake =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
  `Sec-WebSocket-Key: ${key}\r\n`;

describe('a WebSocket with a hostile agent or upstream', () => {
  let stage: TrafficStage;
  let url: string;
  let answer: (socket: Socket) => void;
  const seen: string[] = [];
  const upstreamSockets = new Set<Socket>();

  beforeAll(async () => {
    stage = await startTrafficStage(
      (req, res) => {
        req.resume();
        res.end('{}');
      },
      { SALLYPORT_UPSTREAM_TIMEOUT_MS: '500' },
    );
    const server = createServer((req, res) => {
      seen.push(`${req.method} ${req.url}`);
      res.end('plain');
    });
    server.on('upgrade', (req: IncomingMessage, socket: Socket) => {
      seen.push(`${req.method} ${req.url} ${req.headers.upgrade}`);
      upstreamSockets.add(socket);
      socket.on('error', () => {});
      socket.resume().once('end', () => socket.end());
      socket.once('close', () => upstreamSockets.delete(socket));
      answer(socket);
    });
    const host = `127.0.0.1:${await listening(server, stage.cleanup)}`;
    url = `http://${host}/live`;
    const binding = { protocol: 'http', host, method: 'GET', body: 'none', resource: 'feed:main' };
    const live = { ...binding, path: '/live', tool: 'http.get.127.0.0.1', upgrade: true };
    await stage.separate.api('PUT', '/v1/runtime/bindings/live', live);
    answer = (socket) => socket.end(`${opening}\r\n`);
    await until('the binding is in force', async () => {
      const client = await rawClient(stage.proxyPort, headOf('GET', url, handshake));
      return (await client.closed).startsWith('HTTP/1.1 101 ');
    });
  }, 60_000);
  afterAll(() => stage?.close());

  const ask = async (headers: string, more = '') =>
    (await rawClient(stage.proxyPort, headOf('GET', url, headers) + more)).closed;
  const nothingIsOpen = () =>
    until('nothing is left open', async () => {
      const isFree = (await stage.metric('sallyport_calls_in_flight')) === 0;
      return isFree && upstreamSockets.size === 0;
    });

  it.each([
    ['h2c and another protocol', 'Connection: Upgrade\r\nUpgrade: h2c, h2\r\n'],
    ['h2c in a second header', `${handshake}Upgrade: h2c\r\n`],
    ['two protocols at once', handshake.replace('websocket', 'websocket, h2c')],
    ['another version', handshake.replace('13', '8')],
    ['no version', handshake.replace('Sec-WebSocket-Version: 13\r\n', '')],
    ['no key', handshake.replace(`Sec-WebSocket-Key: ${key}\r\n`, '')],
    ['a short key', handshake.replace(key, 'AAAA')],
    ['two keys', `${handshake}Sec-WebSocket-Key: ${key}\r\n`],
    ['two Upgrade headers', `${handshake}Upgrade: websocket\r\n`],
    ['malformed subprotocols', `${handshake}Sec-WebSocket-Protocol: a b\r\n`],
    ['a body', `${handshake}Content-Length: 5\r\n`, 'hello'],
    ['a chunked body', `${handshake}Transfer-Encoding: chunked\r\n`, '5\r\nhello\r\n0\r\n\r\n'],
  ])(
    'is refused before anything is sent if the upgrade has %s',
    async (_what, headers, body = '') => {
      const before = seen.length;
      const text = await ask(headers, body);
      expect(text).toMatch(/^HTTP\/1\.1 4\d\d /);
      expect(['proxy.upgrade_refused', 'proxy.request_invalid']).toContain(reasonOf(text));
      expect(seen).toHaveLength(before);
    },
  );

  it('is refused, and a request that follows on the same connection gets no response', async () => {
    const before = seen.length;
    const second = headOf('GET', `${stage.open.http}/`, 'Connection: close\r\n');
    const text = await ask(handshake.replace('13', '8'), second);
    expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(seen).toHaveLength(before);
  });

  it('is closed after a refusal, even if the agent keeps the connection open', async () => {
    await until(
      'the start is over',
      async () => (await stage.metric('sallyport_connections')) <= 1,
    );
    const client = await rawClient(
      stage.proxyPort,
      headOf('GET', url, handshake.replace('13', '8')),
    );
    expect(reasonOf(await client.closed)).toBe('proxy.upgrade_refused');
    await until('it is let go', async () => (await stage.metric('sallyport_connections')) <= 1);
    client.socket.destroy();
  });

  it.each<[string, (socket: Socket) => void, string]>([
    [
      '200',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'),
      'upstream.upgrade_refused',
    ],
    [
      'another protocol',
      (socket) => socket.write(`${switching}Upgrade: h2c\r\n${accepted}\r\n`),
      'upstream.upgrade_refused',
    ],
    [
      'no Sec-WebSocket-Accept',
      (socket) => socket.write(`${switching}Upgrade: websocket\r\n\r\n`),
      'upstream.upgrade_refused',
    ],
    [
      'the accept value of another handshake',
      (socket) => socket.write(opening.replace(acceptOf(key), acceptOf('x')).concat('\r\n')),
      'upstream.upgrade_refused',
    ],
    [
      'a subprotocol that was not offered',
      (socket) => socket.write(`${opening}Sec-WebSocket-Protocol: evil\r\n\r\n`),
      'upstream.upgrade_refused',
    ],
    [
      'an extension that was not offered',
      (socket) => socket.write(`${opening}Sec-WebSocket-Extensions: evil\r\n\r\n`),
      'upstream.upgrade_refused',
    ],
    ['nothing', () => {}, 'upstream.timeout'],
    ['a reset', (socket) => socket.resetAndDestroy(), 'upstream.reset'],
  ])(
    'is refused with 502 or 504 if the upstream responds with %s, which does not reach the agent',
    async (_what, talk, reason) => {
      answer = talk;
      const text = await ask(handshake);
      expect(text).toMatch(/^HTTP\/1\.1 50[24] /);
      expect(text).not.toMatch(/hello|evil|101 Switching/);
      expect(reasonOf(text)).toBe(reason);
      await nothingIsOpen();
    },
  );

  it('gets a 101 response with the decision, and without headers that would let the agent bypass the sidecar', async () => {
    answer = (socket) =>
      socket.end(`${opening}Alt-Svc: h3=":1"\r\nSallyport-Decision: allow\r\nX-Kept: yes\r\n\r\n`);
    const text = await ask(handshake);
    expect(text).toMatch(/^HTTP\/1\.1 101 /);
    expect(text.match(/sallyport-decision: .*/gi)).toEqual([
      expect.stringMatching(/allow; reason=traffic\.open; evidence=ev_/),
    ]);
    expect(text).toContain('X-Kept: yes');
    expect(text.toLowerCase()).not.toContain('alt-svc');
  });

  it('keeps headers that the agent lists in Connection', async () => {
    answer = (socket) => socket.end(`${opening}\r\n`);
    expect(await ask(handshake.replace('Upgrade\r\n', 'Upgrade, Host\r\n'))).toMatch(
      /^HTTP\/1\.1 101 /,
    );
  });

  it.each(['agent', 'upstream'] as const)(
    'is closed on both sides if the %s closes its half of the connection and the other side does not',
    async (first) => {
      let theirs: Socket | undefined;
      answer = (socket) => {
        theirs = socket;
        socket.write(`${opening}\r\nhello`);
      };
      const client = await rawClient(stage.proxyPort, headOf('GET', url, handshake));
      await until('it is open', () => client.text().includes('hello'));
      if (first === 'agent') client.socket.end();
      else theirs?.destroy();
      await nothingIsOpen();
      client.socket.destroy();
    },
  );

  it('is ended at once by a kill switch, and its reason and its bytes in both directions are sealed', async () => {
    answer = (socket) => socket.write(`${opening}\r\nhello`);
    const client = await rawClient(stage.proxyPort, headOf('GET', url, handshake));
    await until('it is open', () => client.text().includes('hello'));
    client.socket.write('123');
    const body = { kind: 'block_tool', tool: 'http.get.127.0.0.1', reason: 'test' };
    const armed = await stage.separate.api('POST', '/v1/runtime/kill-switches', body);
    expect(armed.status).toBe(201);
    await client.closed;
    await nothingIsOpen();
    let ended = '';
    await until('its end is sealed', async () => {
      const { body } = await stage.separate.api('GET', '/v1/evidence/events?limit=1000');
      const events = body.events as { type: string; reason_code?: string; data: object }[];
      const last = events.findLast(({ type }) => type === 'execution.result');
      ended = JSON.stringify(last);
      return last?.reason_code === 'runtime.kill_switch';
    });
    expect(ended).toMatch(/"request_bytes":3/);
    expect(ended).toMatch(/"response_bytes":5/);
    expect(ended).toMatch(/"status":101/);
  });
});
