import type { Disguise } from './disguise.ts';
import { jsonType, post, raw } from './request.ts';

const call = { jsonrpc: '2.0', id: 7, method: 'tools/call' };
const refund = { name: 'refund.create', arguments: { amount: 900 } };
const mcp = (message: unknown, more: readonly string[] = []) => post('/mcp', message, more);
const params = (more: object) => mcp({ ...call, params: { ...refund, ...more } });
const stateless = {
  ...call,
  params: { ...refund, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } },
};
const modern = [
  'MCP-Protocol-Version: 2026-07-28',
  'Mcp-Method: tools/call',
  'Mcp-Name: refund.create',
];
const without = (name: string) => modern.filter((line) => !line.startsWith(name));
const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;

export const messages: readonly Disguise[] = [
  [
    'another order and white space',
    mcp(
      '{ "params": {"arguments":{"amount":9e2},"name":"refund.create"}, "method":"tools/call","id":7,"jsonrpc":"2.0"}',
    ),
    'same',
  ],
  [
    'an escaped method',
    mcp(
      '{"jsonrpc":"2.0","id":7,"method":"tools\\u002fcall","params":{"name":"refund.create","arguments":{"amount":900}}}',
    ),
    'same',
  ],
  [
    'an escaped name',
    mcp(
      '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\\u0072efund.create","arguments":{"amount":900}}}',
    ),
    'same',
  ],
  ['additional members', mcp({ ...call, params: refund, x: 1 }), 'same'],
  ['additional params', params({ tool: 'refund.list', x: { y: 1 } }), 'same'],
  ['an escaped path', post('/%6dcp', { ...call, params: refund }), 'same'],
  ['a batch', mcp([{ ...call, params: refund }]), 'mcp.batch_refused'],
  ['an empty batch', mcp([]), 'mcp.batch_refused'],
  [
    'a notification',
    mcp({ jsonrpc: '2.0', method: 'tools/call', params: refund }),
    'mcp.malformed',
  ],
  ['a null id', mcp({ ...call, id: null, params: refund }), 'mcp.malformed'],
  ['a fractional id', mcp({ ...call, id: 7.5, params: refund }), 'mcp.malformed'],
  ['an id that is a list', mcp({ ...call, id: [7], params: refund }), 'mcp.malformed'],
  ['an id that is true', mcp({ ...call, id: true, params: refund }), 'mcp.malformed'],
  [
    'a huge id',
    mcp('{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call"}'),
    'args.number_unsafe',
  ],
  ['no version', mcp({ id: 7, method: 'tools/call', params: refund }), 'mcp.malformed'],
  ['a numeric version', mcp({ ...call, jsonrpc: 2, params: refund }), 'mcp.malformed'],
  ['JSON-RPC 1.0', mcp({ ...call, jsonrpc: '1.0', params: refund }), 'mcp.malformed'],
  [
    'params in a list',
    mcp({ ...call, params: ['refund.create', { amount: 900 }] }),
    'mcp.malformed',
  ],
  ['no params', mcp(call), 'mcp.malformed'],
  ['null params', mcp({ ...call, params: null }), 'mcp.malformed'],
  ['a method in upper case', mcp({ ...call, method: 'Tools/Call', params: refund }), 'other'],
  [
    'a method with a space',
    mcp({ ...call, method: 'tools/call ', params: refund }),
    'mcp.malformed',
  ],
  [
    'a method with a double slash',
    mcp({ ...call, method: 'tools//call', params: refund }),
    'mcp.malformed',
  ],
  [
    'a method that is a list',
    mcp({ ...call, method: ['tools/call'], params: refund }),
    'mcp.malformed',
  ],
  ['a method next to a result', mcp({ ...call, params: refund, result: {} }), 'mcp.malformed'],
  [
    'a method twice',
    mcp('{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}'),
    'args.duplicate_key',
  ],
  [
    'a second Method',
    mcp({ jsonrpc: '2.0', id: 7, method: 'ping', Method: 'tools/call', params: refund }),
    'mcp.malformed',
  ],
  ['a second PARAMS', mcp({ ...call, params: {}, PARAMS: refund }), 'mcp.malformed'],
  ['a second param\u017f', mcp({ ...call, params: {}, 'param\u017f': refund }), 'mcp.malformed'],
  ['a second Name', params({ name: 'refund.list', Name: 'refund.create' }), 'mcp.malformed'],
  ['a second ARGUMENTS', params({ ARGUMENTS: { amount: 1 } }), 'mcp.malformed'],
  [
    'a response with a Method',
    mcp({ jsonrpc: '2.0', id: 7, result: {}, Method: 'tools/call' }),
    'mcp.malformed',
  ],
  [
    'a response with params',
    mcp({ jsonrpc: '2.0', id: 7, result: {}, params: refund }),
    'mcp.malformed',
  ],
  [
    'arguments twice',
    mcp(
      '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"refund.create","arguments":{"amount":1},"arguments":{"amount":900}}}',
    ),
    'args.duplicate_key',
  ],
  [
    'an argument repeated in another case',
    params({ arguments: { amount: 1, AMOUNT: 900 } }),
    'args.ambiguous',
  ],
  ['arguments in a list', params({ arguments: [900] }), 'mcp.malformed'],
  ['arguments as text', params({ arguments: '{"amount":900}' }), 'mcp.malformed'],
  ['a name with a NUL', params({ name: 'refund.create\0' }), 'mcp.malformed'],
  ['a name with spaces', params({ name: ' refund.create' }), 'mcp.malformed'],
  ['a name with a wildcard', params({ name: 'refund.*' }), 'mcp.malformed'],
  ['a name in full-width letters', params({ name: 'ｒefund.create' }), 'mcp.malformed'],
  ['a name with a hidden character', params({ name: 'refund\u200b.create' }), 'mcp.malformed'],
  ['a name with two dots', params({ name: 'refund..create' }), 'mcp.malformed'],
  ['an endless name', params({ name: 'r'.repeat(129) }), 'mcp.malformed'],
  ['no name', params({ name: undefined }), 'mcp.malformed'],
  ['a name that is a list', params({ name: ['refund.create'] }), 'mcp.malformed'],
  [
    'a header for another method',
    mcp({ ...call, params: refund }, ['Mcp-Method: tools/list']),
    'mcp.header_mismatch',
  ],
  [
    'a header for another name',
    mcp({ ...call, params: refund }, ['Mcp-Name: refund.list']),
    'mcp.header_mismatch',
  ],
  [
    'a header given twice',
    mcp({ ...call, params: refund }, ['Mcp-Name: refund.create', 'Mcp-Name: refund.list']),
    'mcp.header_mismatch',
  ],
  [
    'two sessions',
    mcp({ ...call, params: refund }, ['Mcp-Session-Id: a', 'Mcp-Session-Id: b']),
    'mcp.header_mismatch',
  ],
  [
    'a version that is not a date',
    mcp({ ...call, params: refund }, ['MCP-Protocol-Version: latest']),
    'mcp.meta_missing',
  ],
  ['a query', post('/mcp?server=other', { ...call, params: refund }), 'proxy.unbound_call'],
  ['a deeper path', post('/mcp/x', { ...call, params: refund }), 'proxy.unbound_call'],
  ['a trailing slash', post('/mcp/', { ...call, params: refund }), 'proxy.unbound_call'],
  [
    'the old transport',
    post('/messages?sessionId=1', { ...call, params: refund }),
    'proxy.unbound_call',
  ],
  [
    'PUT',
    raw({
      method: 'PUT',
      target: '/mcp',
      headers: [jsonType],
      body: JSON.stringify({ ...call, params: refund }),
    }),
    'proxy.method_refused',
  ],
  [
    'GET with a body',
    raw({ target: '/mcp', headers: [jsonType], body: JSON.stringify({ ...call, params: refund }) }),
    'proxy.content_type_refused',
  ],
  [
    'text/plain',
    raw({ method: 'POST', target: '/mcp', headers: ['Content-Type: text/plain'], body: '{}' }),
    'proxy.content_type_refused',
  ],
  ['no body', raw({ method: 'POST', target: '/mcp', headers: [jsonType] }), 'args.schema_invalid'],
  ['gzip', mcp({ ...call, params: refund }, ['Content-Encoding: gzip']), 'args.encoding_invalid'],
  [
    'events',
    mcp(`data: ${JSON.stringify({ ...call, params: refund })}\n\n`),
    'args.schema_invalid',
  ],
];

export const modernMessages: readonly Disguise[] = [
  [
    'a name in base64',
    mcp(stateless, [...without('Mcp-Name'), `Mcp-Name: ${base64('refund.create')}`]),
    'same',
  ],
  [
    'another name in base64',
    mcp(stateless, [...without('Mcp-Name'), `Mcp-Name: ${base64('refund.list')}`]),
    'mcp.header_mismatch',
  ],
  [
    'base64 with invalid characters',
    mcp(stateless, [...without('Mcp-Name'), 'Mcp-Name: =?base64?@@@@?=']),
    'mcp.header_mismatch',
  ],
  [
    'base64 of what is not UTF-8',
    mcp(stateless, [...without('Mcp-Name'), 'Mcp-Name: =?base64?//8=?=']),
    'mcp.header_mismatch',
  ],
  [
    'a sentinel in upper case',
    mcp(stateless, [
      ...without('Mcp-Name'),
      `Mcp-Name: =?BASE64?${Buffer.from('refund.create').toString('base64')}?=`,
    ]),
    'mcp.header_mismatch',
  ],
  ['no method header', mcp(stateless, without('Mcp-Method')), 'mcp.header_mismatch'],
  ['no name header', mcp(stateless, without('Mcp-Name')), 'mcp.header_mismatch'],
  ['no version header', mcp(stateless, without('MCP-Protocol')), 'mcp.header_mismatch'],
  [
    'another version header',
    mcp(stateless, [...without('MCP-Protocol'), 'MCP-Protocol-Version: 2025-11-25']),
    'mcp.header_mismatch',
  ],
  ['no version in the body', mcp({ ...call, params: refund }, modern), 'mcp.meta_missing'],
  [
    'a method header in another case',
    mcp(stateless, [...without('Mcp-Method'), 'Mcp-Method: TOOLS/CALL']),
    'mcp.header_mismatch',
  ],
  [
    'a parameter header that repeats nothing',
    mcp(stateless, [...modern, 'Mcp-Param-Region: eu']),
    'mcp.header_mismatch',
  ],
  [
    'a parameter header of another value',
    mcp(stateless, [...modern, 'Mcp-Param-Amount: 1']),
    'mcp.header_mismatch',
  ],
];

/** The denied calls that are disguised, with and without sessions. */
export const toolCall = mcp({ ...call, params: refund });
export const statelessCall = mcp(stateless, modern);
