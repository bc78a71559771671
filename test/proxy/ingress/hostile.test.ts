import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  bodyOf,
  Cleanup,
  httpsUpstream,
  httpUpstream,
  raw,
  startProxy,
  type TestProxy,
  testAuthority,
  until,
} from '../../support/proxy.ts';

let cleanup: Cleanup;
let proxy: TestProxy;
let seen: string[];
let port: number;

beforeEach(async () => {
  cleanup = new Cleanup();
  seen = [];
  port = await httpUpstream(cleanup, async (req, res) => {
    const body = await bodyOf(req).catch(() => undefined);
    if (body === undefined) return;
    seen.push(`${req.method} ${req.url} ${body}`);
    res.end('upstream');
  });
  proxy = await startProxy(cleanup);
});
afterEach(() => cleanup.run());

const target = (path = '/') => `http://127.0.0.1:${port}${path}`;
const host = () => `Host: 127.0.0.1:${port}\r\n`;
const close = 'Connection: close\r\n';

function codes(text: string): string[] {
  return [...text.matchAll(/"reason_code":"([^"]+)"/g)].map((match) => match[1] ?? '');
}

function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
}

describe('what must never get through', () => {
  const invalid = 'proxy.request_invalid';
  const cases: [string, () => string, string][] = [
    [
      'both Content-Length and Transfer-Encoding',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'both, the other way round',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'two Content-Lengths that differ',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
      invalid,
    ],
    [
      'two Content-Lengths that agree',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 1\r\nContent-Length: 1\r\n\r\na`,
      invalid,
    ],
    [
      'a Content-Length list',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 1, 1\r\n\r\na`,
      invalid,
    ],
    [
      'a signed Content-Length',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: +1\r\n\r\na`,
      invalid,
    ],
    [
      'a negative Content-Length',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: -1\r\n\r\na`,
      invalid,
    ],
    [
      'a Content-Length beyond numbers',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 99999999999999999999\r\n\r\na`,
      invalid,
    ],
    [
      'another transfer coding',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'chunked twice',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'chunked that is not last',
      () =>
        `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'an obscured coding',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a coding behind a vertical tab',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a transfer coding in HTTP/1.0',
      () => `POST ${target()} HTTP/1.0\r\n${host()}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a space before the colon',
      () => `POST ${target()} HTTP/1.1\r\n${host()}Content-Length : 1\r\n\r\na`,
      invalid,
    ],
    ['a folded header', () => `GET ${target()} HTTP/1.1\r\n${host()}X-A: b\r\n c\r\n\r\n`, invalid],
    [
      'a null byte in a header',
      () => `GET ${target()} HTTP/1.1\r\n${host()}X-A: b\0c\r\n\r\n`,
      invalid,
    ],
    ['a null byte in the target', () => `GET ${target('/\0')} HTTP/1.1\r\n${host()}\r\n`, invalid],
    [
      'a lone CR in a header',
      () => `GET ${target()} HTTP/1.1\r\n${host()}X-A: b\rX-B: c\r\n\r\n`,
      invalid,
    ],
    ['a lone LF as line end', () => `GET ${target()} HTTP/1.1\n${host()}\n`, invalid],
    ['a tab in the request line', () => `GET\t${target()}\tHTTP/1.1\r\n${host()}\r\n`, invalid],
    [
      'bytes beyond ASCII in the target',
      () => `GET ${target('/\xe9')} HTTP/1.1\r\n${host()}\r\n`,
      invalid,
    ],
    ['a fragment', () => `GET ${target('/#x')} HTTP/1.1\r\n${host()}\r\n`, invalid],
    [
      'user information',
      () => `GET http://u:p@127.0.0.1:${port}/ HTTP/1.1\r\n${host()}\r\n`,
      invalid,
    ],
    [
      'a backslash host',
      () => `GET http://127.0.0.1:${port}\\@evil/ HTTP/1.1\r\n${host()}\r\n`,
      invalid,
    ],
    ['no Host', () => `GET ${target()} HTTP/1.1\r\n\r\n`, invalid],
    ['two Hosts', () => `GET ${target()} HTTP/1.1\r\n${host()}${host()}\r\n`, invalid],
    ['a Host that is none', () => `GET ${target()} HTTP/1.1\r\nHost: a b\r\n\r\n`, invalid],
    [
      'another Host',
      () => `GET ${target()} HTTP/1.1\r\nHost: other.example\r\n\r\n`,
      'proxy.host_mismatch',
    ],
    [
      'another port in Host',
      () => `GET ${target()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
      'proxy.host_mismatch',
    ],
    ['origin form', () => `GET / HTTP/1.1\r\n${host()}\r\n`, invalid],
    ['the asterisk form', () => `OPTIONS * HTTP/1.1\r\n${host()}\r\n`, invalid],
    [
      'https in absolute form',
      () => `GET https://127.0.0.1:${port}/ HTTP/1.1\r\n${host()}\r\n`,
      invalid,
    ],
    ['ftp', () => `GET ftp://127.0.0.1:${port}/ HTTP/1.1\r\n${host()}\r\n`, invalid],
    ['TRACE', () => `TRACE ${target()} HTTP/1.1\r\n${host()}\r\n`, 'proxy.method_refused'],
    ['an unknown method', () => `FROB ${target()} HTTP/1.1\r\n${host()}\r\n`, invalid],
    ['a lower-case method', () => `get ${target()} HTTP/1.1\r\n${host()}\r\n`, invalid],
    ['HTTP/2 by prior knowledge', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', invalid],
    ['HTTP/2.0 as a version', () => `GET ${target()} HTTP/2.0\r\n${host()}\r\n`, invalid],
    ['HTTP/0.9', () => `GET ${target()}\r\n\r\n`, invalid],
    ['HTTP/1.2', () => `GET ${target()} HTTP/1.2\r\n${host()}\r\n`, invalid],
    [
      'a WebSocket upgrade',
      () =>
        `GET ${target()} HTTP/1.1\r\n${host()}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      'proxy.upgrade_refused',
    ],
    [
      'an upgrade to h2c',
      () =>
        `GET ${target()} HTTP/1.1\r\n${host()}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
      'proxy.upgrade_refused',
    ],
    [
      'an upgrade that Connection does not name',
      () => `GET ${target()} HTTP/1.1\r\n${host()}Upgrade: websocket\r\n\r\n`,
      'proxy.upgrade_refused',
    ],
    [
      'a huge header',
      () => `GET ${target()} HTTP/1.1\r\n${host()}X: ${'a'.repeat(40_000)}\r\n\r\n`,
      'proxy.headers_too_large',
    ],
    [
      'very many headers',
      () => `GET ${target()} HTTP/1.1\r\n${host()}${'A:b\r\n'.repeat(300)}\r\n`,
      'proxy.headers_too_large',
    ],
    ['TLS without CONNECT', () => '\x16\x03\x01\x00\x05hello', invalid],
    [
      'a CONNECT without port',
      () => 'CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n',
      invalid,
    ],
    [
      'a CONNECT with a path',
      () => 'CONNECT example.com:443/x HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
      invalid,
    ],
    [
      'a CONNECT with another Host',
      () => 'CONNECT example.com:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n',
      'proxy.host_mismatch',
    ],
    [
      'a CONNECT with another port in Host',
      () => 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:444\r\n\r\n',
      'proxy.host_mismatch',
    ],
    [
      'a CONNECT with a body',
      () =>
        'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nContent-Length: 3\r\n\r\nabc',
      invalid,
    ],
    [
      'a CONNECT with user information',
      () => 'CONNECT u@example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
      invalid,
    ],
    [
      'the proxy itself as target',
      () => `GET ${proxy.url}/ HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
    [
      'the proxy itself, spelled oddly',
      () => `GET http://0x7f.1:${proxy.port}/ HTTP/1.1\r\nHost: 0x7f.1:${proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
    [
      'the proxy itself by CONNECT',
      () => `CONNECT localhost:${proxy.port} HTTP/1.1\r\nHost: localhost:${proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
  ];

  it.each(cases)('%s', async (_what, bytes, code) => {
    const answer = await raw(proxy.port, Buffer.from(bytes(), 'latin1'));
    expect(codes(answer)[0]).toBe(code);
    expect(statuses(answer)).toHaveLength(1);
    expect(seen).toEqual([]);
    expect(proxy.exchanges).toEqual([]);
    expect(proxy.refusals).toEqual([code]);
  });

  it.each([
    '0x5\r\nhello',
    '-1\r\nh',
    '5 \r\nhello',
    '5\rhello',
    '5\nhello',
    'fffffffffffffffff\r\nh',
    '5\r\nhelloX',
  ])(
    'a chunk that is malformed (%j) ends the connection and the request at the upstream',
    async (chunk) => {
      const head = `POST ${target()} HTTP/1.1\r\n${host()}Transfer-Encoding: chunked\r\n\r\n`;
      const answer = await raw(
        proxy.port,
        `${head}${chunk}\r\n0\r\n\r\nGET ${target('/smuggled')} HTTP/1.1\r\n${host()}\r\n`,
      );
      expect(answer).toBe('');
      await until(() => proxy.outcomes.length === 1);
      expect(proxy.outcomes[0]?.failure).toBe('client_gone');
      expect(seen).toEqual([]);
    },
  );

  it('a second request smuggled behind a refused one is not answered', async () => {
    const bytes = `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET ${target('/smuggled')} HTTP/1.1\r\n${host()}\r\n`;
    const answer = await raw(proxy.port, bytes);
    expect(statuses(answer)).toEqual([400]);
    expect(seen).toEqual([]);
  });
});

describe('what is odd and harmless', () => {
  it('chunk extensions and trailers are dropped', async () => {
    const bytes = `POST ${target()} HTTP/1.1\r\n${host()}${close}Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n`;
    expect(statuses(await raw(proxy.port, bytes))).toEqual([200]);
    expect(seen).toEqual(['POST / hello']);
  });

  it('HTTP/1.0 without Host', async () => {
    expect(statuses(await raw(proxy.port, `GET ${target('/old')} HTTP/1.0\r\n\r\n`))).toEqual([
      200,
    ]);
    expect(seen).toEqual(['GET /old ']);
  });

  it.each([
    ['no path', '', '/'],
    ['a query without path', '?a=1', '/?a=1'],
    ['dot segments', '/a/../b', '/a/../b'],
    ['encoded bytes', '/%2e%2E/%00', '/%2e%2E/%00'],
  ])('%s: the target arrives exactly as sent', async (_what, path, arrives) => {
    await raw(proxy.port, `GET ${target(path)} HTTP/1.1\r\n${host()}${close}\r\n`);
    expect(seen).toEqual([`GET ${arrives} `]);
  });

  it('a body on GET is carried with its framing', async () => {
    await raw(
      proxy.port,
      `GET ${target()} HTTP/1.1\r\n${host()}${close}Content-Length: 2\r\n\r\nhi`,
    );
    expect(seen).toEqual(['GET / hi']);
  });

  it('another expectation is refused with 417', async () => {
    const answer = await raw(
      proxy.port,
      `GET ${target()} HTTP/1.1\r\n${host()}${close}Expect: magic\r\n\r\n`,
    );
    expect(statuses(answer)).toEqual([417]);
  });
});

describe('pipelining', () => {
  it('requests are handled one after the other and answered in order', async () => {
    const order: string[] = [];
    const own = await startProxy(cleanup, {
      handle: async ({ target: path, res }) => {
        order.push(`begin ${path}`);
        await new Promise((resolve) => setTimeout(resolve, path === '/0' ? 30 : 1));
        order.push(`end ${path}`);
        res.end(path);
      },
    });
    const requests = [0, 1, 2].map(
      (n) => `GET ${target(`/${n}`)} HTTP/1.1\r\n${host()}${n === 2 ? close : ''}\r\n`,
    );
    const answer = await raw(own.port, requests.join(''));
    expect(answer.match(/\/\d$|\/\d(?=HTTP)/gm)).toEqual(['/0', '/1', '/2']);
    expect(order).toEqual(['begin /0', 'end /0', 'begin /1', 'end /1', 'begin /2', 'end /2']);
  });

  it('more than the connection may queue ends the connection', async () => {
    const own = await startProxy(cleanup, { handle: () => new Promise(() => {}) });
    const request = `GET ${target()} HTTP/1.1\r\n${host()}\r\n`;
    expect(await raw(own.port, request.repeat(200))).toBe('');
  });

  it('what waits behind a refused request is not handled', async () => {
    const bytes = `GET / HTTP/1.1\r\n${host()}\r\nGET ${target('/second')} HTTP/1.1\r\n${host()}\r\n`;
    expect(statuses(await raw(proxy.port, bytes))).toEqual([400]);
    expect(seen).toEqual([]);
  });

  it('a CONNECT behind an unanswered request ends the connection', async () => {
    const own = await startProxy(cleanup, { handle: () => new Promise(() => {}) });
    const bytes = `GET ${target()} HTTP/1.1\r\n${host()}\r\nCONNECT 127.0.0.1:${port} HTTP/1.1\r\n${host()}\r\n`;
    expect(await raw(own.port, bytes)).toBe('');
  });
});

function connected(to: string, proxyPort = proxy.port): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(proxyPort, '127.0.0.1');
    cleanup.add(() => socket.destroy());
    socket.on('error', reject);
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
    socket.once('data', (chunk) => {
      if (chunk.toString().startsWith('HTTP/1.1 200')) resolve(socket);
      else reject(new Error(chunk.toString()));
    });
  });
}

function secured(socket: Socket, servername: string, alpn?: string[]): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const secure = connectTls({
      socket,
      servername,
      ca: proxy.authority.certPem,
      checkServerIdentity: () => undefined,
      ...(alpn !== undefined && { ALPNProtocols: alpn }),
    });
    secure.on('error', reject);
    secure.once('close', () => reject(new Error('closed')));
    secure.once('secureConnect', () => resolve(secure));
  });
}

function exchange(socket: Socket, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.once('close', () => resolve(text));
    socket.on('error', () => {});
    socket.write(bytes);
  });
}

describe('inside a CONNECT', () => {
  it.each([
    ['another Host', 'Host: other.example', '/', 'proxy.host_mismatch'],
    ['another port', 'Host: a.example:8443', '/', 'proxy.host_mismatch'],
    ['no Host', 'X: y', '/', 'proxy.request_invalid'],
    ['absolute form', 'Host: a.example', 'https://a.example/', 'proxy.request_invalid'],
    ['CONNECT again', 'Host: a.example', 'CONNECT', 'proxy.request_invalid'],
  ])('%s is refused', async (_what, header, path, code) => {
    const secure = await secured(await connected('a.example:443'), 'a.example');
    const line = path === 'CONNECT' ? 'CONNECT a.example:443' : `GET ${path}`;
    const answer = await exchange(secure, `${line} HTTP/1.1\r\n${header}\r\n\r\n`);
    expect(codes(answer)).toEqual([code]);
    expect(proxy.exchanges).toEqual([]);
  });

  it.each([
    ['another SNI', 'b.example'],
    ['no SNI', ''],
  ])('%s than CONNECT is refused with 421, whatever Host says', async (_what, servername) => {
    for (const name of ['a.example', 'b.example']) {
      const secure = await secured(await connected('a.example:443'), servername);
      const answer = await exchange(secure, `GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
      expect(statuses(answer)).toEqual([421]);
    }
    expect(proxy.exchanges).toEqual([]);
  });

  it('the host is the same however it is written', async () => {
    const own = await startProxy(cleanup, {
      authority: proxy.authority,
      handle: async ({ host: name, port: to, res }) => {
        res.end(`<${name}:${to}>`);
      },
    });
    const secure = await secured(await connected('A.EXAMPLE.:443', own.port), 'A.Example');
    const answer = await exchange(secure, `GET / HTTP/1.1\r\nHost: a.example:443\r\n${close}\r\n`);
    expect(answer).toContain('<a.example:443>');
  });

  it('an IP address needs no SNI', async () => {
    const upstreams = testAuthority(cleanup);
    const to = await httpsUpstream(cleanup, upstreams, (_req, res) => res.end('secure'));
    const own = await startProxy(cleanup, { authority: proxy.authority, ca: [upstreams.certPem] });
    const secure = await secured(await connected(`127.0.0.1:${to}`, own.port), '');
    const answer = await exchange(
      secure,
      `GET / HTTP/1.1\r\nHost: 127.0.0.1:${to}\r\n${close}\r\n`,
    );
    expect(answer).toContain('secure');
  });

  it('ALPN answers http/1.1, and a client that speaks h2 alone is closed', async () => {
    const secure = await secured(await connected('a.example:443'), 'a.example', ['h2', 'http/1.1']);
    expect(secure.alpnProtocol).toBe('http/1.1');
    await expect(secured(await connected('a.example:443'), 'a.example', ['h2'])).rejects.toThrow();
  });

  it.each([
    ['SSH', 'SSH-2.0-x\r\n', /request_invalid/],
    ['bytes', '\x00\x01\x02', /^$/],
    ['a broken handshake', '\x16\x03\x01\xff\xff\xff', /^[^H]*$/],
    ['SMTP', 'ehlo me\r\n', /^$/],
  ])('%s is closed', async (_what, bytes, answer) => {
    const own = await startProxy(cleanup, { limits: { handshakeMs: 200 } });
    const socket = await connected('a.example:443', own.port);
    expect(await exchange(socket, bytes)).toMatch(answer);
    expect(own.exchanges).toEqual([]);
  });

  it('the ClientHello may follow CONNECT in pieces', async () => {
    const own = await startProxy(cleanup, {
      authority: proxy.authority,
      handle: async ({ res }) => {
        res.end('pieces');
      },
    });
    const socket = await connected('a.example:443', own.port);
    const write = socket.write.bind(socket);
    let sent = 0;
    socket.write = ((chunk: Buffer, ...rest: []) => {
      if (sent++ > 0) return write(chunk, ...rest);
      write(chunk.subarray(0, 1));
      setTimeout(() => write(chunk.subarray(1, 50)), 5);
      setTimeout(() => write(chunk.subarray(50)), 10);
      return true;
    }) as typeof socket.write;
    const secure = await secured(socket, 'a.example');
    expect(await exchange(secure, `GET / HTTP/1.1\r\nHost: a.example\r\n${close}\r\n`)).toContain(
      'pieces',
    );
  });

  it('plain HTTP is read under the same rules', async () => {
    const ok = await connected(`127.0.0.1:${port}`);
    expect(await exchange(ok, `GET /plain HTTP/1.1\r\n${host()}${close}\r\n`)).toContain(
      'upstream',
    );
    const wrong = await connected(`127.0.0.1:${port}`);
    const answer = await exchange(wrong, 'GET / HTTP/1.1\r\nHost: other.example\r\n\r\n');
    expect(codes(answer)).toEqual(['proxy.host_mismatch']);
    expect(seen).toEqual(['GET /plain ']);
  });
});

describe('time and number', () => {
  it('a head that does not come is answered 408', async () => {
    const own = await startProxy(cleanup, { limits: { headMs: 100 } });
    const [started, silent] = await Promise.all([raw(own.port, 'GET http://a'), raw(own.port, '')]);
    expect(codes(started)).toEqual(['proxy.request_timeout']);
    expect(codes(silent)).toEqual(['proxy.request_timeout']);
  });

  it('a handshake that does not come is closed', async () => {
    const own = await startProxy(cleanup, { limits: { handshakeMs: 50 } });
    const socket = await connected('a.example:443', own.port);
    expect(await exchange(socket, '\x16')).toBe('');
    const silent = await connected('a.example:443', own.port);
    expect(await exchange(silent, '')).toBe('');
  });

  it('a body that stops coming is answered 408, and the upstream is let go', async () => {
    const own = await startProxy(cleanup, { limits: { bodyIdleMs: 100 } });
    for (const length of [10, 1_000_000]) {
      const answer = await raw(
        own.port,
        `POST ${target()} HTTP/1.1\r\n${host()}Content-Length: ${length}\r\n\r\nhalf`,
      );
      expect(codes(answer)).toEqual(['proxy.request_timeout']);
    }
    await until(() => own.outcomes.length === 2);
    expect(own.outcomes.map(({ failure }) => failure)).toEqual(['client_gone', 'client_gone']);
    expect(seen).toEqual([]);
  });

  it('an answer that takes long is no stalled body', async () => {
    const own = await startProxy(cleanup, {
      limits: { bodyIdleMs: 50 },
      handle: async ({ req, res }) => {
        await bodyOf(req);
        await new Promise((resolve) => setTimeout(resolve, 200));
        res.end('late');
      },
    });
    const answer = await raw(
      own.port,
      `POST ${target()} HTTP/1.1\r\n${host()}${close}Content-Length: 2\r\n\r\nhi`,
    );
    expect(answer).toContain('late');
  });

  it('more connections than allowed are dropped, and room is given back', async () => {
    const own = await startProxy(cleanup, { limits: { connectionsMax: 2 } });
    const first = connect(own.port, '127.0.0.1');
    const second = await connected('a.example:443', own.port);
    expect(await raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}${close}\r\n`)).toBe('');
    first.destroy();
    second.destroy();
    let answer = '';
    await until(() => own.ingress.server.listening);
    for (let attempt = 0; answer === '' && attempt < 50; attempt++) {
      answer = await raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}${close}\r\n`);
    }
    expect(answer).toContain('upstream');
  });
});

describe('exceptions and departures', () => {
  it.each([
    ['throws', () => Promise.reject(new Error('secret detail'))],
    [
      'throws at once',
      () => {
        throw new Error('secret detail');
      },
    ],
    ['answers nothing', async () => {}],
  ])('a handler that %s is answered 500 without its detail', async (_what, handle) => {
    const own = await startProxy(cleanup, { handle: handle as () => Promise<void> });
    const answer = await raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}\r\n`);
    expect(statuses(answer)).toEqual([500]);
    expect(codes(answer)).toEqual(['internal.unexpected']);
    expect(answer).not.toContain('secret');
  });

  it('a handler that fails within its answer breaks the connection off', async () => {
    const own = await startProxy(cleanup, {
      handle: async ({ res }) => {
        res.writeHead(200, { 'content-length': '100' }).write('begin');
        await new Promise((resolve) => setTimeout(resolve, 10));
        throw new Error('late');
      },
    });
    const answer = await raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}\r\n`);
    expect(answer.endsWith('begin')).toBe(true);
  });

  it.each(['destroy', 'end'] as const)(
    'an agent that goes away (%s) aborts its exchange',
    async (way) => {
      let aborted = false;
      let begun = false;
      const own = await startProxy(cleanup, {
        handle: async ({ signal, res }) => {
          begun = true;
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          aborted = true;
          res.end();
        },
      });
      const socket = connect(own.port, '127.0.0.1');
      socket.resume().on('error', () => {});
      socket.write(`GET ${target()} HTTP/1.1\r\n${host()}\r\n`);
      await until(() => begun);
      socket[way]();
      await until(() => aborted, 'the abort');
    },
  );

  it('a signal asked for too late is aborted already', async () => {
    let state: boolean | undefined;
    const own = await startProxy(cleanup, {
      handle: async (exchange) => {
        await new Promise((resolve) => exchange.res.once('close', resolve));
        await Promise.resolve();
        state = exchange.signal.aborted;
      },
    });
    const socket = connect(own.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`GET ${target()} HTTP/1.1\r\n${host()}\r\n`, () =>
      setTimeout(() => socket.destroy(), 20),
    );
    await until(() => state !== undefined);
    expect(state).toBe(true);
  });

  it('closing waits for what is under way and takes no more', async () => {
    let release = () => {};
    const own = await startProxy(cleanup, {
      handle: async ({ res }) => {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        res.end('finished');
      },
    });
    const idle = connect(own.port, '127.0.0.1');
    idle.on('error', () => {});
    const idleClosed = new Promise((resolve) => idle.resume().once('close', resolve));
    const answer = raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const closed = own.ingress.close(5_000);
    await idleClosed;
    expect(await raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}\r\n`)).toBe('');
    release();
    expect(await answer).toContain('finished');
    await closed;
  });

  it('closing ends what outstays its time', async () => {
    const own = await startProxy(cleanup, { handle: () => new Promise(() => {}) });
    const answer = raw(own.port, `GET ${target()} HTTP/1.1\r\n${host()}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    await own.ingress.close(50);
    expect(await answer).toBe('');
  });
});
