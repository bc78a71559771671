import { deniedBody, marker, smallBody } from './place.ts';
import { jsonType, post, raw } from './request.ts';

/**
 * An allowed call that carries a denied one, and the expected result. `harmless`: the allowed call
 * is performed, and no part of the denied one reaches the upstream. Any other text is the reason
 * for which the whole call is refused.
 */
export type Carrier = readonly [name: string, bytes: Buffer, becomes: string];

const path = '/v1/payments/pay_1/refund';
const denied = post(path, deniedBody);
const small = (...headers: string[]) => post(path, smallBody, headers);
const chunked = (body: string, ...headers: string[]) =>
  raw({
    method: 'POST',
    target: path,
    headers: [jsonType, 'Transfer-Encoding: chunked', ...headers],
    body,
  });
const smallChunk = `d\r\n${smallBody}\r\n`;
const header = (name: string, value: string, becomes = 'harmless'): Carrier => [
  `the header ${name}`,
  small(`${name}: ${value}`),
  becomes,
];
const other = `/v1/payments/${marker}/refund`;

/** Headers that some upstream or intermediary interprets as a different call. */
export const headerCarriers: readonly Carrier[] = [
  header('X-Original-URL', other, 'proxy.method_refused'),
  header('X-Rewrite-URL', other, 'proxy.method_refused'),
  header('X-Original-URI', other, 'proxy.method_refused'),
  header('x-http-method-OVERRIDE', `DELETE${marker}`, 'proxy.method_refused'),
  header('X_HTTP_Method_Override', `DELETE${marker}`, 'proxy.method_refused'),
  header('X-HTTP_Method-Override', `DELETE${marker}`, 'proxy.method_refused'),
  header('X_Original_URL', other, 'proxy.method_refused'),
  header('X-Override-URL', other, 'proxy.method_refused'),
  header('X-Envoy-Original-Path', other, 'proxy.method_refused'),
  header('X-Original-Host', `${marker}.example`, 'proxy.method_refused'),
  header('X-HTTP-Host-Override', `${marker}.example`, 'proxy.method_refused'),
  header('X-Forwarded-Host', `${marker}.example`),
  header('X-Forwarded-Path', other),
  header('X-Forwarded-Prefix', other),
  header('X-Forwarded-Uri', other),
  header('X-Forwarded-Method', `DELETE${marker}`),
  header('X-Forwarded-For', `10.0.0.1, ${marker}`),
  header('Forwarded', `host=${marker}.example`),
  header('X_Host', `${marker}.example`, 'proxy.method_refused'),
  header('X-Real-IP', marker),
  header('Client-IP', marker),
  header('Destination', `http://127.0.0.1/${marker}`),
  header('Referer', `http://127.0.0.1/${marker}`),
  header('Origin', `http://${marker}.example`),
  header('Cookie', `amount=${marker}; _method=DELETE`),
  header('Authorization', `Bearer ${marker}`),
  header('Range', `bytes=${marker}-`),
  header('Content-Location', other),
  header('Content-Range', `bytes 0-1/${marker}`),
  header('Content-MD5', marker),
  header('Content_Length', marker),
  header('Transfer_Encoding', 'chunked'),
  header('Content-Transfer-Encoding', 'base64'),
  header('X-Amount', marker),
  header('amount', marker),
  header('Mcp-Method', 'tools/call'),
  header('Mcp-Name', `refund${marker}`),
  header('Mcp-Param-Amount', marker),
  header('Mcp-Session-Id', marker),
  header('Via', `1.1 ${marker}`),
  header('Max-Forwards', '0'),
  header('TE', `trailers, ${marker}`),
  header('Trailer', `X-${marker}`),
  header('Keep-Alive', `timeout=${marker}`),
  header('Proxy-Connection', `keep-alive, ${marker}`),
  header('Proxy-Authorization', `Basic ${marker}`),
  header('Sallyport-Decision', `allow-${marker}`),
  header('Action-Goal', `refund ${marker}`),
  header('Action-Idempotency-Key', marker),
  header('Connection', `close, content-type, content-length, X-${marker}`),
  header('HTTP2-Settings', marker),
  header('Early-Data', '1'),
  header('Sec-WebSocket-Key', marker),
  header('Content-Disposition', `form-data; name="amount${marker}"`),
  header('Content-Encoding', 'identity, gzip', 'args.encoding_invalid'),
  header('Expect', '100-continue'),
];

/**
 * Bodies in which a lenient parser finds the denied amount and a strict parser finds a small
 * amount.
 */
export const bodyCarriers: readonly Carrier[] = [
  ...[
    [
      'the key twice, the small one first',
      `{"amount":50,"amount":${marker}}`,
      'args.duplicate_key',
    ],
    ['the key twice, the small one last', `{"amount":${marker},"amount":50}`, 'args.duplicate_key'],
    ['the key in another case', `{"amount":50,"AMOUNT":${marker}}`, 'args.ambiguous'],
    [
      'the key followed by a NUL',
      `{"amount":50,"amount\\u0000":${marker}}`,
      'args.encoding_invalid',
    ],
    [
      'the key with a zero-width space',
      `{"amount":50,"amount\\u200b":${marker}}`,
      'args.encoding_invalid',
    ],
    [
      'the key with a soft hyphen',
      `{"amount":50,"am\\u00adount":${marker}}`,
      'args.encoding_invalid',
    ],
    [
      'the key after a byte order mark',
      `{"amount":50,"\\ufeffamount":${marker}}`,
      'args.encoding_invalid',
    ],
    ['the key followed by a space', `{"amount":50,"amount ":${marker}}`, 'args.encoding_invalid'],
    ['the key in full-width letters', `{"amount":50,"ａｍｏｕｎｔ":${marker}}`, 'args.ambiguous'],
    ['the key in brackets', `{"amount":50,"amount[]":${marker}}`, 'args.ambiguous'],
    ['the prototype', `{"amount":50,"__proto__":{"amount":${marker}}}`, 'args.schema_invalid'],
    [
      'a nested key in another case',
      `{"amount":50,"payment":{"amount":1,"Amount":${marker}}}`,
      'args.ambiguous',
    ],
    [
      'a nested key in a list',
      `{"amount":50,"items":[{"amount":1,"AMOUNT":${marker}}]}`,
      'args.ambiguous',
    ],
    [
      'a nested prototype',
      `{"amount":50,"payment":{"__proto__":{"amount":${marker}}}}`,
      'args.schema_invalid',
    ],
    ['a second object', `${smallBody}${deniedBody}`, 'args.schema_invalid'],
    ['a second line', `${smallBody}\n${deniedBody}`, 'args.schema_invalid'],
    ['a comment', `{"amount":50/*,"amount":${marker}*/}`, 'args.schema_invalid'],
    ['a NUL between', `${smallBody}\0${deniedBody}`, 'args.schema_invalid'],
    ['text with an exponent', `{"amount":"${marker}e-3"}`, 'policy.no_match'],
    ['text with a fraction and exponent', `{"amount":"${marker}.0E-4"}`, 'policy.no_match'],
    ['text with a unit', `{"amount":"${marker} cents"}`, 'policy.no_match'],
    ['text with a separator', '{"amount":"90,417"}', 'policy.no_match'],
    ['text in hexadecimal', '{"amount":"0x16131"}', 'policy.no_match'],
    ['a list', `{"amount":[${marker}]}`, 'policy.no_match'],
    ['an object', `{"amount":{"value":${marker}}}`, 'policy.no_match'],
    ['null', '{"amount":null}', 'policy.no_match'],
    ['a number with an exponent', `{"amount":${marker}e-400}`, 'args.number_unsafe'],
    ['a number beyond the double range', `{"amount":${marker}e400}`, 'args.number_unsafe'],
    ['minus zero', '{"amount":-0}', 'args.number_unsafe'],
    ['many digits', '{"amount":50.00000000000000000001}', 'args.number_unsafe'],
    ['an octal number', '{"amount":050}', 'args.schema_invalid'],
    ['a plus sign', '{"amount":+50}', 'args.schema_invalid'],
    ['Infinity', '{"amount":-Infinity}', 'args.schema_invalid'],
  ].map(([name = '', body = '', becomes = '']): Carrier => [name, post(path, body), becomes]),
  ['the amount in the query', post(`${path}?amount=${marker}`, '{}'), 'args.schema_invalid'],
  ['the amount in query and body', post(`${path}?amount=${marker}`, smallBody), 'args.ambiguous'],
  ['a form with the key twice', form(`amount=50&amount=${marker}`), 'args.ambiguous'],
  [
    'a form with a space before the key',
    form(`amount=50&+amount=${marker}`),
    'args.encoding_invalid',
  ],
  ['a form with the key in brackets', form(`amount=50&amount[]=${marker}`), 'args.ambiguous'],
  ['a form with the brackets first', form(`amount[]=${marker}&amount=50`), 'args.ambiguous'],
  ['a form with an index', form(`amount=50&amount%5B0%5D=${marker}`), 'args.ambiguous'],
  ['a form with a NUL in the key', form(`amount=50&amount%00=${marker}`), 'args.encoding_invalid'],
  ['a form with an exponent', form(`amount=${marker}e-3`), 'policy.no_match'],
  ['a form with a semicolon', form(`amount=50;amount=${marker}`), 'policy.no_match'],
];

function form(body: string): Buffer {
  const headers = ['Content-Type: application/x-www-form-urlencoded'];
  return raw({ method: 'POST', target: '/v1/transfers', headers, body });
}

const hidden = denied.toString('latin1');

/** Bytes in which parsers may disagree on where one request ends and the next begins. */
export const framingCarriers: readonly Carrier[] = [
  ['another request after the call', Buffer.concat([small(), denied]), 'harmless'],
  ['many requests after the call', Buffer.concat([small(), ...Array(8).fill(denied)]), 'harmless'],
  [
    'line ends before the next request',
    Buffer.concat([small(), Buffer.from('\r\n'), denied]),
    'harmless',
  ],
  [
    'both framings, the length longer',
    chunked(`0\r\n\r\n${hidden}`, `Content-Length: ${hidden.length + 5}`),
    'invalid',
  ],
  [
    'both framings, the length shorter',
    chunked(`${smallChunk}0\r\n\r\n${hidden}`, 'Content-Length: 4'),
    'invalid',
  ],
  ...[
    'Transfer-Encoding : chunked',
    'Transfer-Encoding: xchunked',
    'Transfer-Encoding: chunked, identity',
    'Transfer-Encoding: identity',
    'Transfer-Encoding:\tchunked, chunked',
    'Transfer-Encoding: "chunked"',
    'Transfer-Encoding:\x0bchunked',
    'Transfer-Encoding: chunked\r\n , identity',
    ' Transfer-Encoding: chunked',
    'X: y\nTransfer-Encoding: chunked',
    'X: y\rTransfer-Encoding: chunked',
    'Transfer-Encoding: chunked\0',
    'Transfer\xadEncoding: chunked',
    'Content-Length: 0',
    'Content-Length: +13',
    'Content-Length: 0x0d',
    'Content-Length: 13, 13',
    'Content-Length: 13 4',
    'Content-Length: ',
    'Content-Length: -1',
    'Content-Length: 18446744073709551629',
  ].map(
    (line): Carrier => [
      `a length beside ${JSON.stringify(line)}`,
      Buffer.concat([small(`Content-Length: ${smallBody.length}`, line), denied]),
      'invalid',
    ],
  ),
  [
    'chunk extensions',
    chunked(`d;amount=${marker}\r\n${smallBody}\r\n0;x="${marker}"\r\n\r\n`),
    'harmless',
  ],
  [
    'trailers',
    chunked(`${smallChunk}0\r\namount: ${marker}\r\nX-HTTP-Method-Override: DELETE\r\n\r\n`),
    'harmless',
  ],
  [
    'a trailer of framing',
    chunked(`${smallChunk}0\r\nContent-Length: ${marker}\r\n\r\n`),
    'closed',
  ],
  [
    'a request after the last chunk',
    Buffer.concat([chunked(`${smallChunk}0\r\n\r\n`), denied]),
    'harmless',
  ],
  ['a chunk size with leading zeros', chunked(`000000d\r\n${smallBody}\r\n0\r\n\r\n`), 'harmless'],
  [
    'a chunk size in hexadecimal notation',
    chunked(`0xd\r\n${smallBody}\r\n0\r\n\r\n${hidden}`),
    'closed',
  ],
  ['a signed chunk size', chunked(`+d\r\n${smallBody}\r\n0\r\n\r\n${hidden}`), 'closed'],
  [
    'a chunk size that overflows',
    chunked(`1000000000000000d\r\n${smallBody}\r\n0\r\n\r\n`),
    'closed',
  ],
  ['a chunk that ends with LF', chunked(`d\n${smallBody}\n0\n\n${hidden}`), 'closed'],
  [
    'a chunk with a space before its size',
    chunked(` d\r\n${smallBody}\r\n0\r\n\r\n${hidden}`),
    'closed',
  ],
  ['a chunk longer than it says', chunked(`d\r\n${smallBody}xx\r\n0\r\n\r\n${hidden}`), 'closed'],
  ['an extension with a line feed', chunked(`d;a\n${smallBody}\r\n0\r\n\r\n${hidden}`), 'closed'],
  [
    'an extension with a carriage return',
    chunked(`d;a\rb\r\n${smallBody}\r\n0\r\n\r\n${hidden}`),
    'closed',
  ],
  ['no last chunk', chunked(`${smallChunk}${hidden}`), 'closed'],
  [
    'a GET with a body behind it',
    raw({ target: '/v1/payments?customer=cus_2', headers: ['Content-Length: 0'], body: denied }),
    'harmless',
  ],
];
