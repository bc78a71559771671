import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { raw, until } from '../../support/sidecar/proxy.ts';
import { codes, type HostileStage, hostileStage, statuses } from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('a hostile request', () => {
  const invalid = 'proxy.request_invalid';
  const cases: [string, () => string, string][] = [
    [
      'both Content-Length and Transfer-Encoding',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'both Transfer-Encoding and Content-Length, in that order',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'two Content-Lengths that differ',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
      invalid,
    ],
    [
      'two Content-Lengths that agree',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 1\r\nContent-Length: 1\r\n\r\na`,
      invalid,
    ],
    [
      'a Content-Length list',
      () => `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 1, 1\r\n\r\na`,
      invalid,
    ],
    [
      'a signed Content-Length',
      () => `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: +1\r\n\r\na`,
      invalid,
    ],
    [
      'a negative Content-Length',
      () => `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: -1\r\n\r\na`,
      invalid,
    ],
    [
      'a Content-Length beyond the number range',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 99999999999999999999\r\n\r\na`,
      invalid,
    ],
    [
      'another transfer coding',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'chunked twice',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'chunked that is not last',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'an obscured coding',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a coding behind a vertical tab',
      () =>
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a transfer coding in HTTP/1.0',
      () =>
        `POST ${stage.target()} HTTP/1.0\r\n${stage.host()}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      invalid,
    ],
    [
      'a space before the colon',
      () => `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length : 1\r\n\r\na`,
      invalid,
    ],
    [
      'a folded header',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}X-A: b\r\n c\r\n\r\n`,
      invalid,
    ],
    [
      'a null byte in a header',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}X-A: b\0c\r\n\r\n`,
      invalid,
    ],
    [
      'a null byte in the target',
      () => `GET ${stage.target('/\0')} HTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    [
      'a lone CR in a header',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}X-A: b\rX-B: c\r\n\r\n`,
      invalid,
    ],
    ['a lone LF as line end', () => `GET ${stage.target()} HTTP/1.1\n${stage.host()}\n`, invalid],
    [
      'a tab in the request line',
      () => `GET\t${stage.target()}\tHTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    [
      'bytes beyond ASCII in the target',
      () => `GET ${stage.target('/\xe9')} HTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    ['a fragment', () => `GET ${stage.target('/#x')} HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    [
      'user information',
      () => `GET http://u:p@127.0.0.1:${stage.port}/ HTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    [
      'a backslash host',
      () => `GET http://127.0.0.1:${stage.port}\\@evil/ HTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    ['no Host', () => `GET ${stage.target()} HTTP/1.1\r\n\r\n`, invalid],
    [
      'two Hosts',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}${stage.host()}\r\n`,
      invalid,
    ],
    ['a malformed Host', () => `GET ${stage.target()} HTTP/1.1\r\nHost: a b\r\n\r\n`, invalid],
    [
      'another Host',
      () => `GET ${stage.target()} HTTP/1.1\r\nHost: other.example\r\n\r\n`,
      'proxy.host_mismatch',
    ],
    [
      'another port in Host',
      () => `GET ${stage.target()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
      'proxy.host_mismatch',
    ],
    ['origin form', () => `GET / HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    ['the asterisk form', () => `OPTIONS * HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    [
      'https in absolute form',
      () => `GET https://127.0.0.1:${stage.port}/ HTTP/1.1\r\n${stage.host()}\r\n`,
      invalid,
    ],
    ['ftp', () => `GET ftp://127.0.0.1:${stage.port}/ HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    [
      'TRACE',
      () => `TRACE ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`,
      'proxy.method_refused',
    ],
    ['an unknown method', () => `FROB ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    ['a lower-case method', () => `get ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`, invalid],
    ['HTTP/2 by prior knowledge', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', invalid],
    [
      'HTTP/2.0 as a version',
      () => `GET ${stage.target()} HTTP/2.0\r\n${stage.host()}\r\n`,
      invalid,
    ],
    ['HTTP/0.9', () => `GET ${stage.target()}\r\n\r\n`, invalid],
    ['HTTP/1.2', () => `GET ${stage.target()} HTTP/1.2\r\n${stage.host()}\r\n`, invalid],
    [
      'a WebSocket upgrade',
      () =>
        `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      'proxy.upgrade_refused',
    ],
    [
      'an upgrade that Connection does not name',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}Upgrade: websocket\r\n\r\n`,
      'proxy.upgrade_refused',
    ],
    [
      'a huge header',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}X: ${'a'.repeat(40_000)}\r\n\r\n`,
      'proxy.headers_too_large',
    ],
    [
      'very many headers',
      () => `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}${'A:b\r\n'.repeat(300)}\r\n`,
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
      () => `GET ${stage.proxy.url}/ HTTP/1.1\r\nHost: 127.0.0.1:${stage.proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
    [
      'the proxy itself, spelled oddly',
      () =>
        `GET http://0x7f.1:${stage.proxy.port}/ HTTP/1.1\r\nHost: 0x7f.1:${stage.proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
    [
      'the proxy itself by CONNECT',
      () =>
        `CONNECT localhost:${stage.proxy.port} HTTP/1.1\r\nHost: localhost:${stage.proxy.port}\r\n\r\n`,
      'proxy.address_refused',
    ],
  ];

  it.each(cases)('is refused: %s', async (_what, bytes, code) => {
    const answer = await raw(stage.proxy.port, Buffer.from(bytes(), 'latin1'));
    expect(codes(answer)[0]).toBe(code);
    expect(statuses(answer)).toHaveLength(1);
    expect(stage.seen).toEqual([]);
    expect(stage.proxy.exchanges).toEqual([]);
    expect(stage.proxy.refusals).toEqual([code]);
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
    'with the malformed chunk %j is aborted without a response, and is not completed at the upstream',
    async (chunk) => {
      const head = `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Transfer-Encoding: chunked\r\n\r\n`;
      const answer = await raw(
        stage.proxy.port,
        `${head}${chunk}\r\n0\r\n\r\nGET ${stage.target('/smuggled')} HTTP/1.1\r\n${stage.host()}\r\n`,
      );
      expect(answer).toBe('');
      await until(() => stage.proxy.outcomes.length === 1);
      expect(stage.proxy.outcomes[0]?.failure).toBe('client_gone');
      expect(stage.seen).toEqual([]);
    },
  );

  it('that is refused gets one response, and a second request smuggled in its body gets none', async () => {
    const bytes = `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET ${stage.target('/smuggled')} HTTP/1.1\r\n${stage.host()}\r\n`;
    const answer = await raw(stage.proxy.port, bytes);
    expect(statuses(answer)).toEqual([400]);
    expect(stage.seen).toEqual([]);
  });
});
