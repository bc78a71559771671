import type { Carrier } from './carriers.ts';
import { marker } from './place.ts';
import { jsonType, post, raw } from './request.ts';

const small = { name: 'refund.create', arguments: { amount: 50 } };
const large = { name: 'refund.create', arguments: { amount: Number(marker) } };
const call = { jsonrpc: '2.0', id: 7, method: 'tools/call' };
const version = 'io.modelcontextprotocol/protocolVersion';
const modern = [
  'MCP-Protocol-Version: 2026-07-28',
  'Mcp-Method: tools/call',
  'Mcp-Name: refund.create',
];
const _meta = { [version]: '2026-07-28' };

const mcp = (message: unknown, ...headers: string[]) => post('/mcp', message, headers);
const params = (more: object, ...headers: string[]) =>
  mcp({ ...call, params: { ...small, ...more } }, ...headers);
const stateless = (more: object, ...headers: string[]) =>
  mcp({ ...call, params: { ...small, _meta, ...more } }, ...modern, ...headers);
const body = (text: string) => mcp(text);
const smallText = JSON.stringify({ ...call, params: small });
const largeText = JSON.stringify({ ...call, params: large });

/** Allowed messages to an MCP server that carry a denied call. */
export const mcpCarriers: readonly Carrier[] = [
  ['a second name in capitals', params({ Name: 'refund.delete' }), 'mcp.malformed'],
  ['second arguments in capitals', params({ Arguments: large.arguments }), 'mcp.malformed'],
  ['arguments with a long s', params({ 'argument\u017f': large.arguments }), 'mcp.malformed'],
  [
    'params under names of another parser',
    params({ args: large.arguments, input: marker }),
    'harmless',
  ],
  [
    'a member `parameters` next to params',
    mcp({ ...call, params: small, parameters: large }),
    'harmless',
  ],
  ['a second call next to the first', mcp({ ...call, params: small, calls: [large] }), 'harmless'],
  [
    'an argument twice',
    body(smallText.replace('50', `50,"amount":${marker}`)),
    'args.duplicate_key',
  ],
  [
    'params twice',
    body(smallText.replace(/}$/, `,"params":${JSON.stringify(large)}}`)),
    'args.duplicate_key',
  ],
  [
    'an argument in capitals',
    params({ arguments: { amount: 50, AMOUNT: marker } }),
    'args.ambiguous',
  ],
  [
    'an argument with a NUL',
    params({ arguments: { amount: 50, 'amount\0': marker } }),
    'args.encoding_invalid',
  ],
  [
    'an argument of the prototype',
    body(smallText.replace('50', `50,"__proto__":{"amount":${marker}}`)),
    'args.schema_invalid',
  ],
  [
    'a nested argument in capitals',
    params({ arguments: { amount: 50, of: { amount: 1, Amount: marker } } }),
    'args.ambiguous',
  ],
  [
    'an argument as text with an exponent',
    params({ arguments: { amount: `${marker}e-3` } }),
    'policy.no_match',
  ],
  ['a batch of both', body(`[${smallText},${largeText}]`), 'mcp.batch_refused'],
  ['a batch in a batch', body(`[[${largeText}]]`), 'mcp.batch_refused'],
  ['two messages', body(smallText + largeText), 'args.schema_invalid'],
  ['two lines', body(`${smallText}\n${largeText}\n`), 'args.schema_invalid'],
  ['events', body(`data: ${smallText}\n\ndata: ${largeText}\n\n`), 'args.schema_invalid'],
  [
    'a length before the message',
    body(`Content-Length: 9\r\n\r\n${smallText}`),
    'args.schema_invalid',
  ],
  ['a record separator', body(`\x1e${smallText}\n\x1e${largeText}`), 'args.schema_invalid'],
  [
    'a call as a notification',
    mcp({ jsonrpc: '2.0', method: 'tools/call', params: large }),
    'mcp.malformed',
  ],
  [
    'a call as a list',
    mcp({ ...call, method: 'tools/list', Method: 'tools/call', params: large }),
    'mcp.malformed',
  ],
  [
    'a call as a response',
    mcp({ jsonrpc: '2.0', id: 7, result: {}, params: large }),
    'mcp.malformed',
  ],
  ['a call next to an error', mcp({ ...call, params: large, error: { code: 1 } }), 'mcp.malformed'],
  ['a header for another tool', params({}, `Mcp-Name: refund.${marker}`), 'mcp.header_mismatch'],
  ['a header for another method', params({}, 'Mcp-Method: tools/list'), 'mcp.header_mismatch'],
  [
    'a header for another argument',
    params({}, `Mcp-Param-Amount: ${marker}`),
    'mcp.header_mismatch',
  ],
  ['a header with an underscore', params({}, `Mcp_Name: refund.${marker}`), 'harmless'],
  ['a tool name in a separate header', params({}, `X-Mcp-Tool: refund.${marker}`), 'harmless'],
  ['an overriding method', params({}, `X-HTTP-Method-Override: DELETE${marker}`), 'harmless'],
  ['a stateless version that the body does not state', params({}, ...modern), 'mcp.meta_missing'],
  ['stateless, another argument', stateless({ arguments: large.arguments }), 'pay.too_large'],
  ['stateless, another name', stateless({ name: 'refund.delete' }), 'mcp.header_mismatch'],
  [
    'stateless, params under names of another parser',
    stateless({ input: large.arguments }),
    'harmless',
  ],
  [
    'stateless, a parameter header',
    stateless({}, `Mcp-Param-Amount: ${marker}`),
    'mcp.header_mismatch',
  ],
  [
    'stateless, a parameter header in base64',
    stateless({}, `Mcp-Param-Amount: =?base64?${Buffer.from(marker).toString('base64')}?=`),
    'mcp.header_mismatch',
  ],
  ['stateless, two names', stateless({}, `Mcp-Name: refund.${marker}`), 'mcp.header_mismatch'],
  ['stateless, a batch', post('/mcp', [{ ...call, params: large }], modern), 'mcp.batch_refused'],
  [
    'UTF-16',
    raw({
      method: 'POST',
      target: '/mcp',
      headers: [jsonType],
      body: Buffer.from(`\ufeff${largeText}`, 'utf16le'),
    }),
    'args.encoding_invalid',
  ],
];

/** Calls on a host without bindings. Only GET below /open/ is allowed there. */
const open = (more: readonly string[], target = '/open/x') => raw({ target, headers: more });
const override = (line: string): Carrier => [line, open([line]), 'proxy.method_refused'];
const elsewhere = (target: string): Carrier => [target, open([], target), 'proxy.path_refused'];

export const opaqueCarriers: readonly Carrier[] = [
  override('X-HTTP-Method-Override: DELETE'),
  override('X_HTTP_METHOD_OVERRIDE: DELETE'),
  override('X-HTTP_Method: DELETE'),
  override('x_method_override: DELETE'),
  override(`X-Original-URL: /${marker}`),
  override(`X_Original_URL: /${marker}`),
  override(`X-Rewrite_URL: /${marker}`),
  override(`X-Envoy-Original-Path: /${marker}`),
  override(`X-Host: ${marker}.example`),
  override(`X-HTTP-Host-Override: ${marker}.example`),
  elsewhere(`/open/../${marker}`),
  elsewhere(`/open/%2e%2e/${marker}`),
  elsewhere(`/open/.%2E/${marker}`),
  elsewhere(`/open/%252e%252e/${marker}`),
  elsewhere(`/open/..;/${marker}`),
  elsewhere(`/open/..%2f${marker}`),
  elsewhere(`/open/..%5c${marker}`),
  elsewhere(`/open\\..\\${marker}`),
  elsewhere(`/open//../${marker}`),
  elsewhere(`/open/%00/../${marker}`),
  ['/open?_method=DELETE', open([], '/open/x?_method=DELETE'), 'proxy.method_refused'],
  ['/open?%5fMethod', open([], '/open/x?%5fMethod=DELETE'), 'proxy.method_refused'],
  ['a path beside it', open([], `/open${marker}`), 'policy.no_match'],
  ['a path in capitals', open([], `/OPEN/${marker}`), 'policy.no_match'],
  ['another method', raw({ method: 'DELETE', target: `/open/${marker}` }), 'policy.no_match'],
  ['HEAD', raw({ method: 'HEAD', target: `/open/${marker}` }), 'policy.no_match'],
  ['X_Forwarded_Host', open([`X_Forwarded_Host: ${marker}.example`]), 'harmless'],
  ['Action_Passport', open([`Action_Passport: ${marker}`]), 'harmless'],
  ['Proxy_Authorization', open([`Proxy_Authorization: ${marker}`]), 'harmless'],
  ['Content_Length', open([`Content_Length: ${marker}`]), 'harmless'],
  ['Transfer_Encoding', open([`Transfer_Encoding: chunked, ${marker}`]), 'harmless'],
  [
    'a header that Connection names',
    open(['Connection: X-Amount', `X-Amount: ${marker}`]),
    'harmless',
  ],
  [
    'a header that Connection names in another spelling',
    open(['Connection: X_Amount', `X-Amount: ${marker}`]),
    'harmless',
  ],
];
