import type { Disguise } from './disguise.ts';
import { formType, jsonType, raw } from './request.ts';

const body = '{"amount":900,"to":"cus_1"}';
const listTarget = '/v1/payments?customer=cus_1&note=a%20b';
export const list = (query: string) => raw({ target: `/v1/payments?${query}` });
export const queries: readonly Disguise[] = [
  ['a plus for the space', list('customer=cus_1&note=a+b'), 'same'],
  ['escapes where none are needed', list('c%75stomer=cus%5F1&note=%61%20b'), 'same'],
  ['empty parameters', list('&&customer=cus_1&&note=a%20b&'), 'same'],
  ['a name twice', list('customer=cus_2&customer=cus_1'), 'args.ambiguous'],
  ['a name twice, once escaped', list('customer=cus_2&%63ustomer=cus_1'), 'args.ambiguous'],
  ['a name repeated in another case', list('customer=cus_2&Customer=cus_1'), 'args.ambiguous'],
  ['a list', list('customer[]=cus_1&customer[]=cus_2'), 'args.ambiguous'],
  ['half an escape', list('customer=cus_1%'), 'args.encoding_invalid'],
  ['Latin-1', list('customer=c%FCs'), 'args.encoding_invalid'],
  ['an overlong form', list('customer=%C0%AE'), 'args.encoding_invalid'],
  ['a surrogate', list('customer=%ED%A0%80'), 'args.encoding_invalid'],
  ['a value without name', list('=cus_1'), 'args.encoding_invalid'],
  ['a NUL in a name', list('customer%00=cus_1'), 'args.encoding_invalid'],
  ['_method', list('customer=cus_1&_method=DELETE'), 'proxy.method_refused'],
  ['_METHOD, escaped', list('%5fMETHOD=DELETE'), 'proxy.method_refused'],
  [
    'a body',
    raw({ target: listTarget, headers: [jsonType], body: '{"customer":"x"}' }),
    'proxy.content_type_refused',
  ],
  [
    'an empty body in chunks',
    raw({ target: listTarget, headers: ['Transfer-Encoding: chunked'], body: '0\r\n\r\n' }),
    'same',
  ],
  [
    'a body in chunks',
    raw({
      target: listTarget,
      headers: ['Transfer-Encoding: chunked'],
      body: '1\r\nx\r\n0\r\n\r\n',
    }),
    'proxy.content_type_refused',
  ],
  ['HEAD', raw({ method: 'HEAD', target: listTarget }), 'proxy.unbound_call'],
];

const form = (text: string | Buffer, more: readonly string[] = []) =>
  raw({ method: 'POST', target: '/v1/transfers', headers: [formType, ...more], body: text });
export const forms: readonly Disguise[] = [
  ['escapes', form('%61mount=900&to=cus%5f1'), 'same'],
  [
    'a charset',
    raw({
      method: 'POST',
      target: '/v1/transfers',
      headers: [`${formType}; charset=UTF-8`],
      body: 'amount=900&to=cus_1',
    }),
    'same',
  ],
  ['a name twice', form('amount=1&amount=900'), 'args.ambiguous'],
  [
    'a name in query and form',
    raw({
      method: 'POST',
      target: '/v1/transfers?amount=1',
      headers: [formType],
      body: 'amount=900',
    }),
    'args.ambiguous',
  ],
  [
    'a name in the query',
    raw({
      method: 'POST',
      target: '/v1/transfers?amount=900',
      headers: [formType],
      body: 'to=cus_1',
    }),
    'args.schema_invalid',
  ],
  ['_method', form('amount=900&_method=PUT'), 'proxy.method_refused'],
  ['raw UTF-8', form('to=cüs'), 'args.encoding_invalid'],
  ['raw Latin-1', form(Buffer.from('to=cüs', 'latin1')), 'args.encoding_invalid'],
  ['a line feed after the value', form('amount=900\n'), 'args.encoding_invalid'],
  [
    'a charset parameter of old forms',
    raw({
      method: 'POST',
      target: '/v1/transfers',
      headers: [`${formType}; charset=iso-8859-1`],
      body: 'amount=900',
    }),
    'args.encoding_invalid',
  ],
  [
    'JSON',
    raw({ method: 'POST', target: '/v1/transfers', headers: [jsonType], body }),
    'proxy.content_type_refused',
  ],
  [
    'multipart',
    raw({
      method: 'POST',
      target: '/v1/transfers',
      headers: ['Content-Type: multipart/form-data; boundary=x'],
      body: '--x--',
    }),
    'proxy.content_type_refused',
  ],
];

/** The calls that are disguised. */
export const listCall = raw({ target: listTarget });
export const transferCall = form('amount=900&to=cus_1');
