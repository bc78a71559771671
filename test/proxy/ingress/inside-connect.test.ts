import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { httpsUpstream, startProxy, testAuthority } from '../../support/sidecar/proxy.ts';
import {
  close,
  codes,
  exchange,
  type HostileStage,
  hostileStage,
  statuses,
} from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('a request inside a CONNECT tunnel', () => {
  it.each([
    ['another Host', 'Host: other.example', '/', 'proxy.host_mismatch'],
    ['another port', 'Host: a.example:8443', '/', 'proxy.host_mismatch'],
    ['no Host', 'X: y', '/', 'proxy.request_invalid'],
    ['a target in absolute form', 'Host: a.example', 'https://a.example/', 'proxy.request_invalid'],
    ['a second CONNECT', 'Host: a.example', 'CONNECT', 'proxy.request_invalid'],
  ])('is refused if it has %s', async (_what, header, path, code) => {
    const secure = await stage.secured(await stage.connected('a.example:443'), 'a.example');
    const line = path === 'CONNECT' ? 'CONNECT a.example:443' : `GET ${path}`;
    const answer = await exchange(secure, `${line} HTTP/1.1\r\n${header}\r\n\r\n`);
    expect(codes(answer)).toEqual([code]);
    expect(stage.proxy.exchanges).toEqual([]);
  });

  it.each([
    ['a different SNI', 'b.example'],
    ['no SNI', ''],
  ])('is refused with 421 if TLS has %s, whatever the Host header', async (_what, servername) => {
    for (const name of ['a.example', 'b.example']) {
      const secure = await stage.secured(await stage.connected('a.example:443'), servername);
      const answer = await exchange(secure, `GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
      expect(statuses(answer)).toEqual([421]);
    }
    expect(stage.proxy.exchanges).toEqual([]);
  });

  it('is accepted if its Host and the host of CONNECT are the same host in different spellings', async () => {
    const own = await startProxy(stage.cleanup, {
      authority: stage.proxy.authority,
      handle: async ({ host: name, port: to, res }) => {
        res.end(`<${name}:${to}>`);
      },
    });
    const secure = await stage.secured(
      await stage.connected('A.EXAMPLE.:443', own.port),
      'A.Example',
    );
    const answer = await exchange(secure, `GET / HTTP/1.1\r\nHost: a.example:443\r\n${close}\r\n`);
    expect(answer).toContain('<a.example:443>');
  });

  it('needs no SNI if the host is an IP address', async () => {
    const upstreams = testAuthority(stage.cleanup);
    const to = await httpsUpstream(stage.cleanup, upstreams, (_req, res) => res.end('secure'));
    const own = await startProxy(stage.cleanup, {
      authority: stage.proxy.authority,
      ca: [upstreams.certPem],
    });
    const secure = await stage.secured(await stage.connected(`127.0.0.1:${to}`, own.port), '');
    const answer = await exchange(
      secure,
      `GET / HTTP/1.1\r\nHost: 127.0.0.1:${to}\r\n${close}\r\n`,
    );
    expect(answer).toContain('secure');
  });

  it('uses HTTP/1.1 by ALPN, and a client that offers only h2 is disconnected', async () => {
    const secure = await stage.secured(await stage.connected('a.example:443'), 'a.example', [
      'h2',
      'http/1.1',
    ]);
    expect(secure.alpnProtocol).toBe('http/1.1');
    await expect(
      stage.secured(await stage.connected('a.example:443'), 'a.example', ['h2']),
    ).rejects.toThrow();
  });

  it.each([
    ['SSH', 'SSH-2.0-x\r\n', /request_invalid/],
    ['binary data', '\x00\x01\x02', /^$/],
    ['a malformed TLS handshake', '\x16\x03\x01\xff\xff\xff', /^[^H]*$/],
    ['SMTP', 'ehlo me\r\n', /^$/],
  ])('that is neither HTTP nor TLS closes the connection: %s', async (_what, bytes, answer) => {
    const own = await startProxy(stage.cleanup, { limits: { handshakeMs: 200 } });
    const socket = await stage.connected('a.example:443', own.port);
    expect(await exchange(socket, bytes)).toMatch(answer);
    expect(own.exchanges).toEqual([]);
  });

  it('is accepted if the ClientHello arrives in pieces', async () => {
    const own = await startProxy(stage.cleanup, {
      authority: stage.proxy.authority,
      handle: async ({ res }) => {
        res.end('pieces');
      },
    });
    const socket = await stage.connected('a.example:443', own.port);
    const write = socket.write.bind(socket);
    let sent = 0;
    socket.write = ((chunk: Buffer, ...rest: []) => {
      if (sent++ > 0) return write(chunk, ...rest);
      write(chunk.subarray(0, 1));
      setTimeout(() => write(chunk.subarray(1, 50)), 5);
      setTimeout(() => write(chunk.subarray(50)), 10);
      return true;
    }) as typeof socket.write;
    const secure = await stage.secured(socket, 'a.example');
    expect(await exchange(secure, `GET / HTTP/1.1\r\nHost: a.example\r\n${close}\r\n`)).toContain(
      'pieces',
    );
  });

  it('over plain HTTP is checked by the same rules', async () => {
    const ok = await stage.connected(`127.0.0.1:${stage.port}`);
    expect(await exchange(ok, `GET /plain HTTP/1.1\r\n${stage.host()}${close}\r\n`)).toContain(
      'upstream',
    );
    const wrong = await stage.connected(`127.0.0.1:${stage.port}`);
    const answer = await exchange(wrong, 'GET / HTTP/1.1\r\nHost: other.example\r\n\r\n');
    expect(codes(answer)).toEqual(['proxy.host_mismatch']);
    expect(stage.seen).toEqual(['GET /plain ']);
  });
});
