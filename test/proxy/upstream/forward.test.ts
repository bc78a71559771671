import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { createServer as createTls } from 'node:tls';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { authorityCertificate, leafCertificate } from '../../../proxy/tls/certificate.ts';
import { reflectionFilter } from '../../../proxy/upstream/credential-guard.ts';
import type { Outcome } from '../../../proxy/upstream/forwarding.ts';
import { injectCredential } from '../../../proxy/upstream/inject.ts';
import {
  asItCame,
  bodyOf,
  Cleanup,
  httpsUpstream,
  httpUpstream,
  listening,
  raw,
  startProxy,
  type TestProxy,
  testAuthority,
  until,
} from '../../support/proxy.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

/** An upstream that talks bytes: called with each connection once a head has come. */
function rawUpstream(talk: (socket: Socket, head: string) => void): Promise<number> {
  const server = createServer((socket) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!text.includes('\r\n\r\n')) return;
      const head = text;
      text = '';
      talk(socket, head);
    });
  });
  return listening(server, cleanup);
}

function get(proxy: TestProxy, port: number, more = '', method = 'GET'): Promise<string> {
  return raw(
    proxy.port,
    `${method} http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n${more}\r\n`,
  );
}

async function outcomeOf(proxy: TestProxy): Promise<Outcome> {
  await until(() => proxy.outcomes.length > 0, 'an outcome');
  const [outcome] = proxy.outcomes;
  if (outcome === undefined) throw new Error('no outcome');
  return outcome;
}

const head = (lines: string) => `HTTP/1.1 200 OK\r\n${lines}\r\n`;

describe('an upstream that fails before it answers', () => {
  it.each<[string, (socket: Socket) => void, string]>([
    ['closes at once', (socket) => socket.end(), 'upstream.reset'],
    ['resets at once', (socket) => socket.resetAndDestroy(), 'upstream.reset'],
    [
      'breaks off within the head',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nX: '),
      'upstream.reset',
    ],
    ['speaks something else', (socket) => socket.end('220 smtp ready\r\n'), 'upstream.reset'],
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
      'changes protocols unasked',
      (socket) => socket.end('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      'upstream.reset',
    ],
    [
      'sends 100 for ever',
      (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
      'upstream.reset',
    ],
  ])('%s: 502, and nothing of it reaches the agent', async (_what, talk, failure) => {
    const proxy = await startProxy(cleanup);
    const answer = await get(proxy, await rawUpstream(talk));
    expect(answer).toMatch(/^HTTP\/1\.1 502 /);
    expect(answer).toContain(failure);
    expect(await outcomeOf(proxy)).toMatchObject({ failure, status: undefined, responseBytes: 0 });
  });

  it('never answers: 504', async () => {
    const proxy = await startProxy(cleanup, { timeouts: { headersMs: 100 } });
    const answer = await get(proxy, await rawUpstream(() => {}));
    expect(answer).toMatch(/^HTTP\/1\.1 504 /);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.timeout');
  });

  it('is not there: 502', async () => {
    const server = createServer();
    const own = new Cleanup();
    const port = await listening(server, own);
    await own.run();
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toMatch(/^HTTP\/1\.1 502 /);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.unreachable');
  });

  it('has a name that does not exist: 502', async () => {
    const proxy = await startProxy(cleanup);
    const answer = await raw(
      proxy.port,
      'GET http://no-such-host.invalid/ HTTP/1.1\r\nHost: no-such-host.invalid\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toContain('upstream.unreachable');
  });

  it('lies in a range that is not allowed: 403', async () => {
    const proxy = await startProxy(cleanup, { allowPrivate: [] });
    expect(await get(proxy, await rawUpstream(() => {}))).toMatch(
      /^HTTP\/1\.1 403 .*proxy\.address_refused/s,
    );
  });
});

describe('an upstream that fails within its answer', () => {
  it.each<[string, (socket: Socket) => void]>([
    [
      'resets',
      (socket) =>
        socket.write(`${head('Content-Length: 100\r\n')}part`, () =>
          setTimeout(() => socket.resetAndDestroy(), 20),
        ),
    ],
    ['ends short of its length', (socket) => socket.end(`${head('Content-Length: 100\r\n')}part`)],
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
  ])('%s: the agent sees the break, not a whole answer', async (_what, talk) => {
    const port = await rawUpstream(talk);
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

  it('falls silent: the answer is broken off', async () => {
    const port = await rawUpstream((socket) =>
      socket.write(`${head('Content-Length: 100\r\n')}part`),
    );
    const proxy = await startProxy(cleanup, { timeouts: { bodyIdleMs: 50 } });
    expect(await get(proxy, port)).toMatch(/part$/);
    expect((await outcomeOf(proxy)).failure).toBe('upstream.timeout');
  });

  it('keeps the connection open behind more bytes than it said: those never reach the agent', async () => {
    const port = await rawUpstream((socket) =>
      socket.write(`${head('Content-Length: 4\r\n')}parttoo much`),
    );
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toMatch(/\r\n\r\npart$/);
  });
});

describe('TLS of an upstream', () => {
  const dayMs = 86_400_000;

  function certificateFor(host: string, notAfterMs: number) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const issuer = { key: privateKey, commonName: 'Test' };
    const validity = { notBeforeMs: Date.now() - 10 * dayMs, notAfterMs: Date.now() + dayMs };
    const ca = authorityCertificate(issuer, validity);
    const cert = leafCertificate(issuer, {
      host,
      publicKey: leaf.publicKey,
      validity: { ...validity, notAfterMs },
    });
    return { ca, cert, key: leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  }

  async function through(proxy: TestProxy, port: number) {
    const agent = new ProxyAgent({ uri: proxy.url, requestTls: { ca: proxy.authority.certPem } });
    cleanup.add(() => agent.destroy());
    const answer = await request(`https://127.0.0.1:${port}/`, { dispatcher: agent });
    return { status: answer.statusCode, text: await answer.body.text() };
  }

  it.each([
    ['of an unknown authority', '127.0.0.1', dayMs, false],
    ['that has expired', '127.0.0.1', -dayMs, true],
    ['of another host', 'other.example', dayMs, true],
  ])(
    'a certificate %s: 502, and not a byte of the request is sent',
    async (_what, host, endsInMs, trusted) => {
      const { ca, cert, key } = certificateFor(host, Date.now() + endsInMs);
      let received = 0;
      const server = createTls({ cert: cert + ca, key }, (socket) => {
        socket.on('data', (chunk) => {
          received += chunk.length;
        });
        socket.on('error', () => {});
      });
      server.on('tlsClientError', () => {});
      const port = await listening(server, cleanup);
      const proxy = await startProxy(cleanup, { ca: trusted ? [ca] : [] });
      // Twice: a TLS session of the first attempt must not open the second.
      for (let attempt = 0; attempt < 2; attempt++) {
        expect(await through(proxy, port)).toMatchObject({
          status: 502,
          text: expect.stringContaining('upstream.tls_invalid'),
        });
      }
      expect(received).toBe(0);
    },
  );

  it('cannot be switched off by the environment', async () => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    cleanup.add(() => {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    });
    const port = await httpsUpstream(cleanup, testAuthority(cleanup), (_req, res) =>
      res.end('secret'),
    );
    const proxy = await startProxy(cleanup);
    expect((await through(proxy, port)).status).toBe(502);
  });

  it('a plain HTTP server behind https://: 502', async () => {
    const proxy = await startProxy(cleanup);
    const port = await httpUpstream(cleanup, (_req, res) => res.end('plain'));
    expect((await through(proxy, port)).text).toContain('upstream.tls_invalid');
  });
});

describe('what passes', () => {
  it('headers come as the upstream sent them, less what is hop-by-hop', async () => {
    const sent = [
      'Set-Cookie: a=1',
      'set-cookie: b=2',
      'X-Odd: \xe9',
      'Alt-Svc: h3=":443"',
      'Sallyport-Decision: allow',
      'Connection: X-Hop',
      'X-Hop: 1',
      'Content-Length: 2',
    ];
    const port = await rawUpstream((socket) =>
      socket.write(Buffer.from(`${head(sent.map((line) => `${line}\r\n`).join(''))}ok`, 'latin1')),
    );
    const proxy = await startProxy(cleanup);
    const answer = await get(proxy, port);
    expect(answer).toContain(
      'Set-Cookie: a=1\r\nset-cookie: b=2\r\nX-Odd: \xe9\r\nContent-Length: 2\r\n',
    );
    expect(answer).not.toMatch(/alt-svc|sallyport|x-hop/i);
  });

  it('request headers leave in order, less what is hop-by-hop; Host is the target’s', async () => {
    let received = '';
    const port = await rawUpstream((socket, text) => {
      received = text;
      socket.write(head('Content-Length: 0\r\n'));
    });
    const proxy = await startProxy(cleanup);
    await get(
      proxy,
      port,
      'X-B: 1\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nAction-Passport: p\r\nSallyport-X: 1\r\nAccept-Encoding: gzip\r\nx-b: 2\r\n',
    );
    expect(received.split('\r\n').slice(0, -2)).toEqual([
      'GET / HTTP/1.1',
      `host: 127.0.0.1:${port}`,
      'connection: keep-alive',
      'X-B: 1',
      'Accept-Encoding: gzip',
      'x-b: 2',
    ]);
  });

  it.each([
    [
      'HEAD',
      'HEAD',
      head('Content-Length: 100\r\n'),
      /^HTTP\/1\.1 200 [\s\S]*Content-Length: 100\r\n[\s\S]*\r\n\r\n$/,
    ],
    [
      '204',
      'GET',
      'HTTP/1.1 204 No Content\r\n\r\n',
      /^HTTP\/1\.1 204 (?![\s\S]*(content-length|transfer-encoding))[\s\S]*\r\n\r\n$/i,
    ],
    [
      '304 with a length',
      'GET',
      'HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: "x"\r\n\r\n',
      /^HTTP\/1\.1 304 [\s\S]*ETag: "x"\r\n[\s\S]*\r\n\r\n$/,
    ],
    [
      'an empty body',
      'GET',
      head('Content-Length: 0\r\n'),
      /Content-Length: 0\r\n[\s\S]*\r\n\r\n$/,
    ],
    [
      'a chunked body',
      'GET',
      `${head('Transfer-Encoding: chunked\r\n')}2;x=y\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n`,
      /\r\n\r\n2\r\nok\r\n0\r\n\r\n$/,
    ],
    [
      'interim answers',
      'GET',
      `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${head('Content-Length: 2\r\n')}ok`,
      /^HTTP\/1\.1 200 [\s\S]*\r\n\r\nok$/,
    ],
    [
      'a redirect',
      'GET',
      'HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n',
      /^HTTP\/1\.1 302 [\s\S]*Location: http:\/\/127\.0\.0\.1:1\/\r\n/,
    ],
    [
      'a compressed body',
      'GET',
      `${head('Content-Encoding: gzip\r\nContent-Length: 3\r\n')}\x1f\x8b!`,
      /Content-Encoding: gzip\r\n[\s\S]*\r\n\r\n..!$/,
    ],
  ])('%s', async (_what, method, answer, expected) => {
    const port = await rawUpstream((socket) => socket.write(Buffer.from(answer, 'latin1')));
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port, '', method)).toMatch(expected);
    expect((await outcomeOf(proxy)).failure).toBeUndefined();
  });

  it('an answer that ends with its connection', async () => {
    const port = await rawUpstream((socket) => socket.end(`${head('')}until the end`));
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toContain('until the end');
    expect((await outcomeOf(proxy)).failure).toBeUndefined();
  });

  it('a streamed body of known length keeps its length, and one of unknown length is chunked', async () => {
    const heads: string[] = [];
    const port = await rawUpstream((socket, text) => {
      heads.push(text.toLowerCase());
      socket.end(head('Content-Length: 0\r\n'));
    });
    const proxy = await startProxy(cleanup);
    const agent = new ProxyAgent({ uri: proxy.url, proxyTunnel: false });
    cleanup.add(() => agent.destroy());
    const url = `http://127.0.0.1:${port}/`;
    const body = Buffer.alloc(100_000, 'x');
    await request(url, { dispatcher: agent, method: 'PUT', body }).catch(() => {});
    await request(url, { dispatcher: agent, method: 'PUT', body: Readable.from(['a', 'b']) }).catch(
      () => {},
    );
    await request(url, { dispatcher: agent, method: 'POST' });
    await until(() => heads.length >= 3);
    expect(heads[0]).toContain('content-length: 100000');
    expect(heads[1]).toContain('transfer-encoding: chunked');
    expect(heads.at(-1)).toContain('content-length: 0');
  });

  it('connections to the upstream are used again', async () => {
    const sockets = new Set<unknown>();
    const port = await httpUpstream(cleanup, (req, res) => {
      sockets.add(req.socket);
      res.end('x');
    });
    const proxy = await startProxy(cleanup);
    for (let round = 0; round < 5; round++) await get(proxy, port);
    expect(sockets.size).toBe(1);
  });

  it('Expect: 100-continue is answered here, and the body follows', async () => {
    const port = await httpUpstream(cleanup, async (req, res) => {
      res.end(`${req.headers.expect} ${(await bodyOf(req)).toString()}`);
    });
    const proxy = await startProxy(cleanup);
    const answer = await get(
      proxy,
      port,
      'Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi',
      'POST',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 [\s\S]*undefined hi/);
  });

  it('an early refusal of a large upload reaches the agent', async () => {
    const port = await rawUpstream((socket) => {
      socket.end('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig');
      socket.pause();
    });
    const proxy = await startProxy(cleanup);
    const agent = new ProxyAgent({ uri: proxy.url, proxyTunnel: false });
    cleanup.add(() => agent.destroy());
    const answer = await request(`http://127.0.0.1:${port}/`, {
      dispatcher: agent,
      method: 'POST',
      body: Buffer.alloc(30_000_000),
    });
    expect(answer.statusCode).toBe(413);
    expect(await answer.body.text()).toBe('big');
  });
});

describe('streams', () => {
  it('the head of an event stream arrives before any event, each event as it is sent', async () => {
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
    // Silence is no failure of an event stream, however short the limit is elsewhere.
    await new Promise((resolve) => setTimeout(resolve, 100));
    emit('data: late\n\n');
    expect(String((await events.next()).value)).toBe('data: late\n\n');
  });

  it('an agent that goes away ends the upstream’s stream', async () => {
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

  it('an agent that stops reading is given up in the end, event stream or not', async () => {
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

  it('the caller can break off: before the answer nothing is written, within it the agent sees the break', async () => {
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

describe('filters', () => {
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

  it('the credential arrives in place of the agent’s, and identity is asked for', async () => {
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
  ])('a credential that comes back %s is not seen by the agent', async (_what, reflect) => {
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
  });

  it('an answer without it is the same, length and all', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => {
      res.writeHead(200, { 'content-length': '12' });
      res.write('sk_liv');
      setTimeout(() => res.end('e_4eC3'), 10);
    });
    const proxy = await injected();
    expect(await get(proxy, port)).toMatch(/content-length: 12\r\n[\s\S]*\r\n\r\nsk_live_4eC3$/);
  });

  it('a buffered answer is replaced with its new length', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end('small'));
    const proxy = await startProxy(cleanup, {
      filter: () => ({
        head: () => 'buffer',
        whole: (bytes) => Buffer.from(`${bytes.toString()} and more`),
      }),
    });
    expect(await get(proxy, port)).toMatch(/content-length: 14\r\n[\s\S]*\r\n\r\nsmall and more$/i);
  });

  it('an answer too large to be buffered is not passed on at all', async () => {
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
    'a filter that throws in %s lets nothing through',
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

  it('a HEAD answer keeps its length whatever the filter does with bodies', async () => {
    const port = await rawUpstream((socket) => socket.write(head('Content-Length: 100\r\n')));
    const proxy = await startProxy(cleanup, {
      filter: () => ({ head: () => 'buffer', whole: (bytes) => bytes }),
    });
    expect(await get(proxy, port, '', 'HEAD')).toMatch(/Content-Length: 100\r\n/);
  });

  it('headers are added to the answer in place of the upstream’s', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.setHeader('X-A', '1').end());
    const proxy: TestProxy = await startProxy(cleanup, {
      handle: async (exchange) => {
        const responseHeaders = { 'Sallyport-Decision': 'allow', 'x-a': '2' };
        await proxy.forward(asItCame(exchange), exchange.res, {
          signal: exchange.signal,
          responseHeaders,
        });
      },
    });
    const answer = await get(proxy, port);
    expect(answer).toContain('Sallyport-Decision: allow\r\nx-a: 2\r\n');
    expect(answer).not.toContain('X-A: 1');
  });
});
