import { type Disguise, disguisedHost as host } from './disguise.ts';
import { jsonType, post, raw } from './request.ts';

const target = '/v1/payments/pay_1/refund';
const body = '{"amount":900,"to":"cus_1"}';
const at = (path: string) => post(path, body);
const withHeader = (...headers: string[]) => post(target, body, headers);
const withBody = (text: string) => raw({ method: 'POST', target, headers: [jsonType], body: text });

export const paths: readonly Disguise[] = [
  ['an escaped letter in a literal', at('/v1/%70ayments/pay_1/refund'), 'same'],
  ['an escaped letter in a parameter', at('/v1/payments/p%61y_1/refund'), 'same'],
  ['an escape in lower case', at('/v1/payments/pay%5f1/refund'), 'same'],
  ['absolute form', at(`http://${host}${target}`), 'same'],
  ['absolute form with another host', at(`http://other.example${target}`), 'same'],
  ['a bare question mark', at(`${target}?`), 'same'],
  ['an empty query part', at(`${target}?&`), 'same'],
  ['a trailing slash', at(`${target}/`), 'proxy.unbound_call'],
  ['another case', at('/V1/Payments/pay_1/Refund'), 'proxy.unbound_call'],
  ['a dot segment', at('/v1/./payments/pay_1/refund'), 'proxy.path_refused'],
  ['dot segments that lead back', at('/v1/x/../payments/pay_1/refund'), 'proxy.path_refused'],
  ['an escaped dot segment', at('/v1/%2e/payments/pay_1/refund'), 'proxy.path_refused'],
  ['a half-escaped dot segment', at('/v1/x/.%2E/payments/pay_1/refund'), 'proxy.path_refused'],
  ['a twice-escaped dot segment', at('/v1/payments/%252e%252e/refund'), 'proxy.path_refused'],
  ['dot segments as the parameter', at('/v1/payments/../refund'), 'proxy.path_refused'],
  [
    'another action by dot segments',
    at(`/v1/payments/x/read/../../pay_1/refund`),
    'proxy.path_refused',
  ],
  ['a double slash', at('/v1//payments/pay_1/refund'), 'proxy.path_refused'],
  ['a leading double slash', at(`/${target}`), 'proxy.path_refused'],
  ['an escaped slash', at('/v1/payments%2fpay_1/refund'), 'proxy.path_refused'],
  ['a twice-escaped slash', at('/v1/payments/x%252fpay_1/refund'), 'proxy.path_refused'],
  ['an escaped slash in the parameter', at('/v1/payments/x%2Fy/refund'), 'proxy.path_refused'],
  ['a backslash', at('/v1\\payments\\pay_1\\refund'), 'proxy.path_refused'],
  ['an escaped backslash', at('/v1/payments/..%5crefund/refund'), 'proxy.path_refused'],
  ['a path parameter', at('/v1/payments/pay_1;v=1/refund'), 'proxy.path_refused'],
  ['an escaped semicolon', at('/v1/payments/pay_1%3bx/refund'), 'proxy.path_refused'],
  [
    'a dot segment with a path parameter',
    at('/v1/x/..;/payments/pay_1/refund'),
    'proxy.path_refused',
  ],
  ['a NUL', at('/v1/payments/pay_1%00/refund'), 'proxy.path_refused'],
  ['a line feed', at('/v1/payments/pay_1%0a/refund'), 'proxy.path_refused'],
  ['an overlong slash', at('/v1/payments/x%c0%afpay_1/refund'), 'proxy.path_refused'],
  ['half an escape', at('/v1/payments/pay_1%/refund'), 'proxy.path_refused'],
  ['an escape that is not hexadecimal', at('/v1/payments/pay%zz/refund'), 'proxy.path_refused'],
  ['a Microsoft escape', at('/v1/payments/pay%u005f1/refund'), 'proxy.path_refused'],
  ['a fragment', at(`${target}#x`), 'proxy.path_refused'],
  [
    'raw UTF-8',
    raw({ method: 'POST', target: '/v1/payments/päy/refund', headers: [jsonType], body }),
    'unparsed',
  ],
  ['an empty parameter', at('/v1/payments//refund'), 'proxy.path_refused'],
  ['asterisk form', raw({ method: 'OPTIONS', target: '*' }), 'proxy.path_refused'],
  ['another path', at('/v2/payments/pay_1/refund'), 'proxy.unbound_call'],
];

export const methods: readonly Disguise[] = [
  ['PUT', raw({ method: 'PUT', target, headers: [jsonType], body }), 'proxy.unbound_call'],
  ['PATCH', raw({ method: 'PATCH', target, headers: [jsonType], body }), 'proxy.unbound_call'],
  ['GET with the same body', raw({ target, headers: [jsonType], body }), 'proxy.unbound_call'],
  ['a lower-case method', raw({ method: 'post', target, headers: [jsonType], body }), 'unparsed'],
  ['QUERY', raw({ method: 'QUERY', target, headers: [jsonType], body }), 'proxy.unbound_call'],
  ['TRACE', raw({ method: 'TRACE', target }), 'proxy.unbound_call'],
  ...['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override', 'X-Original-Method'].map(
    (name): Disguise => [`${name}: DELETE`, withHeader(`${name}: DELETE`), 'proxy.method_refused'],
  ),
  ['X-Original-URL', withHeader('X-Original-URL: /v1/payments/x/read'), 'proxy.method_refused'],
  ['X-Rewrite-URL', withHeader('X-Rewrite-URL: /admin'), 'proxy.method_refused'],
  ['_method in the query', at(`${target}?_method=DELETE`), 'args.schema_invalid'],
  ['_method in the body', withBody('{"amount":900,"_method":"DELETE"}'), 'proxy.method_refused'],
];

/** The denied call that is disguised. */
export const refundCall = post(target, body);
