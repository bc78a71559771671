import { marker, type Place } from './place.ts';
import type { Transport } from './wire.ts';

/** Bytes on a connection that form a denied call in some protocol, and the expected refusal. */
export type Connection = readonly [
  name: string,
  transport: Transport,
  write: (place: Place) => string,
  becomes: readonly string[],
];

const invalid = ['proxy.request_invalid', 'closed'];
const upgrade = ['proxy.upgrade_refused'];
const post =
  (version: string, headers = '') =>
  (place: Place) =>
    `POST http://${place.authority}${place.path}${version}\r\n${headers}Host: ${place.authority}\r\n${place.rest}`;
const inside =
  (headers: string, target = '') =>
  (place: Place) =>
    `POST ${target.replace('HOST', place.authority) || place.path} HTTP/1.1\r\n${headers.replace('HOST', place.authority)}${place.rest}`;
const clientHello = '\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03';

export const connections: readonly Connection[] = [
  ['HTTP/0.9', 'plain', ({ authority }) => `GET http://${authority}/${marker}\r\n\r\n`, invalid],
  ['HTTP/1.0', 'plain', post(' HTTP/1.0'), ['pay.too_large']],
  [
    'HTTP/1.0 without Host',
    'plain',
    ({ authority, path, rest }) => `POST http://${authority}${path} HTTP/1.0\r\n${rest}`,
    ['pay.too_large'],
  ],
  [
    'HTTP/1.0 that keeps alive',
    'plain',
    post(' HTTP/1.0', 'Connection: keep-alive\r\n'),
    ['pay.too_large'],
  ],
  ['HTTP/1.2', 'plain', post(' HTTP/1.2'), invalid],
  ['HTTP/2.0', 'plain', post(' HTTP/2.0'), invalid],
  ['HTTP/01.1', 'plain', post(' HTTP/01.1'), invalid],
  ['http/1.1', 'plain', post(' http/1.1'), invalid],
  ['no version', 'plain', post(''), invalid],
  ['a version after a tab', 'plain', post('\tHTTP/1.1'), invalid],
  ['ICY', 'plain', post(' ICY/1.0'), invalid],
  ['RTSP', 'plain', post(' RTSP/1.0'), [...invalid, 'pay.too_large']],
  [
    'empty lines before',
    'plain',
    (place) => `\r\n\r\n${post(' HTTP/1.1')(place)}`,
    ['pay.too_large'],
  ],
  ['a space before', 'plain', (place) => ` ${post(' HTTP/1.1')(place)}`, invalid],
  ['a NUL before', 'plain', (place) => `\0${post(' HTTP/1.1')(place)}`, invalid],
  [
    'a byte order mark before',
    'plain',
    (place) => `\xef\xbb\xbf${post(' HTTP/1.1')(place)}`,
    invalid,
  ],
  [
    'line feeds alone',
    'plain',
    (place) => post(' HTTP/1.1')(place).replaceAll('\r\n', '\n'),
    invalid,
  ],
  [
    'carriage returns alone',
    'plain',
    (place) => post(' HTTP/1.1')(place).replaceAll('\r\n', '\r'),
    invalid,
  ],
  [
    'the PROXY protocol',
    'plain',
    (place) => `PROXY TCP4 10.0.0.1 127.0.0.1 1 2\r\n${post(' HTTP/1.1')(place)}`,
    invalid,
  ],
  [
    'HTTP/2 by prior knowledge',
    'plain',
    () => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${marker}`,
    invalid,
  ],
  ['TLS without CONNECT', 'plain', () => `${clientHello}${marker}`, invalid],
  ['SOCKS 5', 'plain', () => `\x05\x01\x00${marker}`, invalid],
  ['SOCKS 4', 'plain', () => `\x04\x01\x00\x50\x7f\x00\x00\x01\x00${marker}`, invalid],
  ['FTP', 'plain', () => `USER ${marker}\r\n`, invalid],
  [
    'an upgrade to h2c',
    'plain',
    post(
      ' HTTP/1.1',
      'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n',
    ),
    ['pay.too_large'],
  ],
  [
    'an upgrade to WebSocket',
    'plain',
    post(' HTTP/1.1', 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
    upgrade,
  ],
  [
    'an upgrade to TLS',
    'plain',
    post(' HTTP/1.1', 'Connection: Upgrade\r\nUpgrade: TLS/1.3\r\n'),
    upgrade,
  ],
  [
    'an upgrade that Connection does not list',
    'plain',
    post(' HTTP/1.1', 'Upgrade: websocket\r\n'),
    upgrade,
  ],
  [
    'an upgrade inside TLS',
    'tls',
    inside('Host: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'),
    upgrade,
  ],
  ['no Host', 'tls', inside(''), invalid],
  ['another Host', 'tls', inside('Host: other.example\r\n'), ['proxy.host_mismatch']],
  ['two Hosts', 'tls', inside('Host: HOST\r\nHost: other.example\r\n'), invalid],
  ['a Host in a folded line', 'tls', inside('X: y\r\n Host: HOST\r\n'), invalid],
  [
    'absolute form inside TLS',
    'tls',
    inside('Host: HOST\r\n', 'https://HOST/v1/payments/x/read'),
    invalid,
  ],
  [
    'absolute form of http inside TLS',
    'tls',
    inside('Host: HOST\r\n', 'http://HOST/v1/payments/x/read'),
    invalid,
  ],
  ['authority form inside TLS', 'tls', inside('Host: HOST\r\n', 'HOST'), invalid],
  [
    'CONNECT inside TLS',
    'tls',
    ({ authority }) => `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`,
    invalid,
  ],
  ['TLS inside TLS', 'tls', () => `${clientHello}${marker}`, invalid],
  ['h2 inside TLS', 'tls', () => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${marker}`, invalid],
  [
    'CONNECT inside CONNECT',
    'connect',
    ({ authority }) => `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`,
    invalid,
  ],
  ['absolute form inside CONNECT', 'connect', post(' HTTP/1.1'), invalid],
  [
    'another expectation',
    'plain',
    post(' HTTP/1.1', 'Expect: 200-ok\r\n'),
    ['closed', 'pay.too_large'],
  ],
  ['an expectation', 'plain', post(' HTTP/1.1', 'Expect: 100-continue\r\n'), ['pay.too_large']],
  [
    'an expectation inside TLS',
    'tls',
    inside('Host: HOST\r\nExpect: 100-continue\r\n'),
    ['pay.too_large'],
  ],
  [
    'a header beyond the limit',
    'plain',
    post(' HTTP/1.1', `X: ${'a'.repeat(40_000)}\r\n`),
    ['proxy.headers_too_large'],
  ],
  [
    'headers beyond the count',
    'plain',
    post(' HTTP/1.1', 'X: y\r\n'.repeat(300)),
    ['proxy.headers_too_large'],
  ],
  ['a NUL in a header', 'plain', post(' HTTP/1.1', 'X: a\0b\r\n'), invalid],
  ['a carriage return in a header', 'plain', post(' HTTP/1.1', 'X: a\rHost: b\r\n'), invalid],
  ['a line feed in a header', 'plain', post(' HTTP/1.1', 'X: a\n b\r\n'), invalid],
  ['a header without a name', 'plain', post(' HTTP/1.1', ': a\r\n'), invalid],
  ['a header without a colon', 'plain', post(' HTTP/1.1', 'Content-Length 5\r\n'), invalid],
  ['a header name beyond ASCII', 'plain', post(' HTTP/1.1', 'H\xf6st: a\r\n'), invalid],
];
