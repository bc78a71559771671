import type { Disguise } from './disguise.ts';
import { formType, jsonType, post, raw } from './request.ts';

const target = '/v1/payments/pay_1/refund';
const body = '{"amount":900,"to":"cus_1"}';
const plain = post(target, body);
const withBody = (text: string | Buffer, headers: readonly string[] = [jsonType]) =>
  raw({ method: 'POST', target, headers, body: text });
const at = (path: string) => post(path, body);
const withHeader = (...headers: string[]) => post(target, body, headers);
const chunked = (text: string, headers: readonly string[] = []) =>
  raw({
    method: 'POST',
    target,
    headers: [jsonType, 'Transfer-Encoding: chunked', ...headers],
    body: text,
  });
const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(body, 'utf16le')]);

export const headers: readonly Disguise[] = [
  ['a charset', withBody(body, ['Content-Type: application/json; charset=utf-8']), 'same'],
  [
    'a quoted charset in upper case',
    withBody(body, ['Content-Type: Application/JSON;Charset="UTF-8"']),
    'same',
  ],
  [
    'another charset',
    withBody(body, ['Content-Type: application/json; charset=utf-16']),
    'args.encoding_invalid',
  ],
  [
    'a charset that many parsers ignore',
    withBody(body, ['Content-Type: application/json; charset=utf-7']),
    'args.encoding_invalid',
  ],
  ['no content type', withBody(body, []), 'proxy.content_type_refused'],
  ['an empty content type', withBody(body, ['Content-Type:']), 'proxy.content_type_refused'],
  ['text/plain', withBody(body, ['Content-Type: text/plain']), 'proxy.content_type_refused'],
  ['text/json', withBody(body, ['Content-Type: text/json']), 'proxy.content_type_refused'],
  [
    'a JSON suffix',
    withBody(body, ['Content-Type: application/vnd.api+json']),
    'proxy.content_type_refused',
  ],
  [
    'a list of types',
    withBody(body, ['Content-Type: application/json, text/xml']),
    'proxy.content_type_refused',
  ],
  [
    'two content types',
    withBody(body, [jsonType, 'Content-Type: text/xml']),
    'proxy.request_invalid',
  ],
  ['a form', withBody('amount=900&to=cus_1', [formType]), 'proxy.content_type_refused'],
  [
    'multipart',
    withBody('--x\r\n\r\n900\r\n--x--', ['Content-Type: multipart/form-data; boundary=x']),
    'proxy.content_type_refused',
  ],
  ['gzip', withHeader('Content-Encoding: gzip'), 'args.encoding_invalid'],
  ['identity coding', withHeader('Content-Encoding: identity'), 'same'],
  [
    'two codings',
    withHeader('Content-Encoding: identity', 'Content-Encoding: gzip'),
    'proxy.request_invalid',
  ],
  ['a Host that differs from the target', post(target, body, ['Host: other.example']), 'same'],
  [
    'forwarded headers',
    withHeader('X-Forwarded-Host: evil', 'X-Forwarded-Prefix: /admin', 'Forwarded: host=evil'),
    'same',
  ],
  ['its own credentials', withHeader('Authorization: Bearer x', 'Cookie: session=1'), 'same'],
  ['headers named by Connection', withHeader('Connection: close, content-type'), 'same'],
  ['Upgrade to h2c', withHeader('Connection: HTTP2-Settings', 'HTTP2-Settings: AAMAAABk'), 'same'],
  [
    'a header line that is folded',
    raw({ method: 'POST', target, headers: [jsonType, 'X-A: b', ' folded'], body }),
    'unparsed',
  ],
  ['a space before the colon', withHeader('Content-Length : 5'), 'unparsed'],
  [
    'a hint given twice',
    withHeader('Action-Passport: a', 'Action-Passport: b'),
    'proxy.request_invalid',
  ],
];

export const framing: readonly Disguise[] = [
  ['chunks', chunked(`1b\r\n${body}\r\n0\r\n\r\n`), 'same'],
  ['many chunks', chunked(`${[...body].map((c) => `1\r\n${c}\r\n`).join('')}0\r\n\r\n`), 'same'],
  ['chunk extensions', chunked(`1b;a=b\r\n${body}\r\n0;x\r\n\r\n`), 'same'],
  ['trailers', chunked(`1b\r\n${body}\r\n0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n`), 'same'],
  ['both framings', chunked(`1b\r\n${body}\r\n0\r\n\r\n`, ['Content-Length: 2']), 'unparsed'],
  [
    'chunked twice',
    raw({
      method: 'POST',
      target,
      headers: [jsonType, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
      body: `1b\r\n${body}\r\n0\r\n\r\n`,
    }),
    'unparsed',
  ],
  [
    'a coding before chunked',
    raw({
      method: 'POST',
      target,
      headers: [jsonType, 'Transfer-Encoding: gzip, chunked'],
      body: `1b\r\n${body}\r\n0\r\n\r\n`,
    }),
    'proxy.request_invalid',
  ],
  [
    'a disguised chunked',
    raw({
      method: 'POST',
      target,
      headers: [jsonType, 'Transfer-Encoding: xchunked'],
      body: `1b\r\n${body}\r\n0\r\n\r\n`,
    }),
    'unparsed',
  ],
  ['two content lengths', withHeader('Content-Length: 27', 'Content-Length: 5'), 'unparsed'],
  [
    'a signed content length',
    raw({ method: 'POST', target, headers: [jsonType, 'Content-Length: +27'], body }),
    'unparsed',
  ],
  [
    'a request after the request',
    Buffer.concat([plain, post('/v1/payments/pay_2/refund', body)]),
    'same',
  ],
  [
    'a content length that ends early',
    raw({ method: 'POST', target, headers: [jsonType, 'Content-Length: 14'], body }),
    'unparsed',
  ],
];

export const json: readonly Disguise[] = [
  ['white space', withBody('\t{ "to" : "cus_1",\r\n"amount":900 }\n'), 'same'],
  ['an escaped key', withBody('{"\\u0061mount":900,"to":"cus_1"}'), 'same'],
  ['an escaped value', withBody('{"amount":900,"to":"\\u0063us_1"}'), 'same'],
  ['a number with a fraction of zero', withBody('{"amount":900.0,"to":"cus_1"}'), 'same'],
  ['a number with an exponent', withBody('{"amount":9e2,"to":"cus_1"}'), 'same'],
  ['a key twice', withBody('{"amount":1,"amount":900,"to":"cus_1"}'), 'args.duplicate_key'],
  ['a key twice, once escaped', withBody('{"amount":1,"\\u0061mount":900}'), 'args.duplicate_key'],
  ['a key repeated in another case', withBody('{"amount":1,"Amount":900}'), 'args.ambiguous'],
  [
    'a key repeated with a letter that folds to the same case',
    withBody('{"tos":1,"to\u017f":2}'),
    'args.ambiguous',
  ],
  ['the path parameter in the body', withBody('{"payment_id":"pay_2"}'), 'args.ambiguous'],
  ['the path parameter in another case', withBody('{"Payment_ID":"pay_2"}'), 'args.ambiguous'],
  [
    'an argument in query and body',
    raw({ method: 'POST', target: `${target}?amount=1`, headers: [jsonType], body }),
    'args.ambiguous',
  ],
  ['the path parameter in the query', at(`${target}?payment_id=pay_2`), 'args.ambiguous'],
  [
    'an argument in the query',
    raw({
      method: 'POST',
      target: `${target}?amount=900`,
      headers: [jsonType],
      body: '{"to":"cus_1"}',
    }),
    'args.schema_invalid',
  ],
  ['a huge integer', withBody('{"amount":9007199254740993,"to":"cus_1"}'), 'args.number_unsafe'],
  ['a number that overflows', withBody('{"amount":1e999,"to":"cus_1"}'), 'args.number_unsafe'],
  ['minus zero', withBody('{"amount":-0,"to":"cus_1"}'), 'args.number_unsafe'],
  ['a byte order mark', withBody(`\ufeff${body}`), 'args.encoding_invalid'],
  ['UTF-16', withBody(utf16), 'args.encoding_invalid'],
  [
    'Latin-1',
    withBody(Buffer.from('{"amount":900,"to":"cüs"}', 'latin1')),
    'args.encoding_invalid',
  ],
  ['half a surrogate pair', withBody('{"amount":900,"to":"\\ud800"}'), 'args.encoding_invalid'],
  ['deep nesting', withBody(`{"a":${'['.repeat(64)}${']'.repeat(64)}}`), 'args.too_deep'],
  ['a list', withBody(`[${body}]`), 'args.schema_invalid'],
  ['a string of JSON', withBody(JSON.stringify(body)), 'args.schema_invalid'],
  ['null', withBody('null'), 'args.schema_invalid'],
  ['a comment', withBody('{"amount":900,/* x */"to":"cus_1"}'), 'args.schema_invalid'],
  ['a trailing comma', withBody('{"amount":900,"to":"cus_1",}'), 'args.schema_invalid'],
  ['single quotes', withBody("{'amount':900}"), 'args.schema_invalid'],
  ['NaN', withBody('{"amount":NaN}'), 'args.schema_invalid'],
  ['a second value', withBody(`${body}${body}`), 'args.schema_invalid'],
  ['a NUL after the text', withBody(`${body}\0`), 'args.schema_invalid'],
  ['a guard against JSON hijacking', withBody(`)]}',\n${body}`), 'args.schema_invalid'],
  ['a body above the limit', withBody(`{"a":"${'x'.repeat(1 << 20)}"}`), 'args.too_large'],
];
