import { Readable } from 'node:stream';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bodyOf, Cleanup, httpUpstream, startProxy, until } from '../../support/sidecar/proxy.ts';
import { get, head, outcomeOf, rawUpstream } from './raw-upstream.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

describe('a forwarded call', () => {
  it('returns the upstream’s headers in order, without hop-by-hop and Sallyport headers', async () => {
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
    const port = await rawUpstream(cleanup, (socket) =>
      socket.write(Buffer.from(`${head(sent.map((line) => `${line}\r\n`).join(''))}ok`, 'latin1')),
    );
    const proxy = await startProxy(cleanup);
    const answer = await get(proxy, port);
    expect(answer).toContain(
      'Set-Cookie: a=1\r\nset-cookie: b=2\r\nX-Odd: \xe9\r\nContent-Length: 2\r\n',
    );
    expect(answer).not.toMatch(/alt-svc|sallyport|x-hop/i);
  });

  it('sends the request headers in order, without hop-by-hop ones, and with the Host of the target', async () => {
    let received = '';
    const port = await rawUpstream(cleanup, (socket, text) => {
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
      'interim responses',
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
  ])('returns the final response: %s', async (_what, method, answer, expected) => {
    const port = await rawUpstream(cleanup, (socket) =>
      socket.write(Buffer.from(answer, 'latin1')),
    );
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port, '', method)).toMatch(expected);
    expect((await outcomeOf(proxy)).failure).toBeUndefined();
  });

  it('is complete if the end of the upstream connection is the only mark of the end of the response', async () => {
    const port = await rawUpstream(cleanup, (socket) => socket.end(`${head('')}until the end`));
    const proxy = await startProxy(cleanup);
    expect(await get(proxy, port)).toContain('until the end');
    expect((await outcomeOf(proxy)).failure).toBeUndefined();
  });

  it('keeps the length of a streamed body; the body is chunked if its length is unknown', async () => {
    const heads: string[] = [];
    const port = await rawUpstream(cleanup, (socket, text) => {
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

  it('reuses connections to the upstream', async () => {
    const sockets = new Set<unknown>();
    const port = await httpUpstream(cleanup, (req, res) => {
      sockets.add(req.socket);
      res.end('x');
    });
    const proxy = await startProxy(cleanup);
    for (let round = 0; round < 5; round++) await get(proxy, port);
    expect(sockets.size).toBe(1);
  });

  it('receives 100 Continue from the sidecar, which then forwards the body', async () => {
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

  it('returns an early refusal of a large upload to the agent', async () => {
    const port = await rawUpstream(cleanup, (socket) => {
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
