import { describe, expect, it } from 'vitest';
import type { Binding } from '../../../shared/binding/binding.ts';
import { checkBinding } from '../../../shared/binding/check.ts';

const good: Binding = {
  name: 'refund',
  protocol: 'http',
  host: 'api.example.com',
  tool: 'payments.refund',
  method: 'POST',
  path: '/v1/payments/{payment_id}/refund',
  body: 'json',
  resource: 'payment:{payment_id}',
  headers: ['X-Tenant', 'Authorization'],
  upstream: { url: 'https://payments.internal/refunds/{payment_id}', method: 'POST' },
};
const server: Binding = { name: 'payments', protocol: 'mcp', host: 'mcp.example.com' };

describe('checking a binding', () => {
  it.each<[string, Binding]>([
    ['an http call', good],
    ['an MCP server', server],
    ['an MCP server with path and query', { ...server, path: '/v2/mcp?profile=a' }],
    ['a passthrough', { name: 'model', protocol: 'passthrough', host: 'llm.example.com' }],
    ['a port', { ...good, host: 'api.example.com:8443' }],
    ['IPv4', { ...good, host: '127.0.0.1:3000' }],
    ['IPv6', { ...good, host: '[::1]:3000' }],
    ['an A-label', { ...good, host: 'xn--bcher-kva.example' }],
    ['an underscore', { ...good, host: 'my_service' }],
    ['a DELETE with a body', { ...good, method: 'DELETE' }],
  ])('accepts %s', (_, binding) => {
    expect(checkBinding(binding)).toEqual([]);
  });
});

describe('checking an invalid binding', () => {
  it.each<[string, Binding, RegExp]>([
    ['a name with a slash', { ...good, name: 'a/b' }, /^name:/],
    ['an empty name', { ...good, name: '' }, /^name:/],
    ['a server name with a dot', { ...server, name: 'pay.ments' }, /^name:.*no dot/],
    [
      'upper case in the host',
      { ...good, host: 'API.example.com' },
      /^host:.*write api\.example\.com/,
    ],
    ['a U-label', { ...good, host: 'bücher.example' }, /^host:.*xn--bcher-kva/],
    ['a trailing dot', { ...good, host: 'api.example.com.' }, /^host:.*write api\.example\.com\./],
    ['a scheme', { ...good, host: 'https://api.example.com' }, /^host:/],
    ['a path in the host', { ...good, host: 'api.example.com/x' }, /^host:/],
    ['a user in the host', { ...good, host: 'u@api.example.com' }, /^host:/],
    ['a wildcard', { ...good, host: '*.example.com' }, /^host:/],
    ['port 443', { ...good, host: 'api.example.com:443' }, /^host:.*write api\.example\.com/],
    ['port 80', { ...good, host: 'api.example.com:80' }, /^host:/],
    ['an invalid port', { ...good, host: 'api.example.com:99999' }, /^host:/],
    ['IPv4 in octal', { ...good, host: '0177.0.0.1' }, /^host:.*127\.0\.0\.1/],
    ['IPv4 as a number', { ...good, host: '2130706433' }, /^host:.*127\.0\.0\.1/],
    ['IPv6 without brackets', { ...good, host: '::1' }, /^host:/],
    ['IPv6 in its long form', { ...good, host: '[0:0:0:0:0:0:0:1]' }, /^host:.*\[::1\]/],
    ['an empty host', { ...good, host: '' }, /^host:/],
    ['Sallyport’s own host', { ...good, host: 'sallyport.internal' }, /^host:/],
    ['a call without a tool', { ...good, tool: undefined }, /^tool:/],
    ['a tool with a wildcard', { ...good, tool: 'payments.*' }, /^tool:/],
    ['a call without a method', { ...good, method: undefined }, /^method:/],
    ['a method in lower case', { ...good, method: 'post' }, /^method:/],
    ['TRACE', { ...good, method: 'TRACE' }, /^method:/],
    ['a call without a path', { ...good, path: undefined }, /^path:/],
    ['a path with an incomplete parameter', { ...good, path: '/v1/a{b}' }, /^path:.*whole segment/],
    ['a GET with a body', { ...good, method: 'GET' }, /^body:/],
    [
      'a multi-segment parameter before the end',
      { ...good, resource: 'file:{+path}/{x}' },
      /^resource:/,
    ],
    ['a resource with an unbalanced brace', { ...good, resource: 'payment:{x' }, /^resource:/],
    ['an invalid header name', { ...good, headers: ['a b'] }, /^headers:/],
    ['a framing header', { ...good, headers: ['Transfer-Encoding'] }, /^headers:/],
    ['a method override', { ...good, headers: ['X-HTTP-Method-Override'] }, /^headers:/],
    ['a Sallyport request header', { ...good, headers: ['Action-Passport'] }, /^headers:/],
    [
      'an upstream that is not a URL',
      { ...good, upstream: { url: '/x', method: 'GET' } },
      /^upstream\.url/,
    ],
    [
      'a secret in the upstream',
      { ...good, upstream: { url: 'https://u:p@a/', method: 'GET' } },
      /^upstream\.url/,
    ],
    [
      'an invalid upstream method',
      { ...good, upstream: { url: 'https://a/', method: 'get' } },
      /^upstream\.method/,
    ],
    ['a tool on an MCP server', { ...server, tool: 'x' }, /^tool:/],
    ['a parameter in an endpoint', { ...server, path: '/{x}' }, /^path:.*fixed/],
    ['a path on a passthrough', { ...server, protocol: 'passthrough', path: '/x' }, /^path:/],
  ])('reports a single problem: %s', (_, binding, expected) => {
    const problems = checkBinding(binding);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(expected);
  });
});
