import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { buildRequest } from '../../../shared/binding/build.ts';
import { buildUpstreamRequest, readUpstreamUrl } from '../../../shared/binding/upstream.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

const refund: Binding = {
  name: 'refund',
  protocol: 'http',
  host: 'api.example.com',
  tool: 'payments.refund',
  method: 'POST',
  path: '/v1/payments/{payment_id}/refund{?dry_run}',
  headers: ['X-Tenant'],
};

function build(binding: Binding, args: JsonObject, agentHeaders: readonly string[] = []) {
  const { body, ...rest } = buildRequest(binding, args, { agentHeaders });
  return { ...rest, body: body?.toString('utf8') ?? null };
}

function codeOf(act: () => unknown): string {
  try {
    act();
    return 'accepted';
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return error.code;
  }
}

describe('a request built from a binding', () => {
  it('has each argument in exactly one place', () => {
    expect(build(refund, { payment_id: 'pay 1', amount: 900, dry_run: true, tags: ['a'] })).toEqual(
      {
        method: 'POST',
        path: '/v1/payments/pay%201/refund?dry_run=true',
        headers: ['content-type', 'application/json'],
        body: '{"amount":900,"tags":["a"]}',
      },
    );
  });

  it('has all arguments except path parameters in its query if the method is GET, HEAD or DELETE', () => {
    for (const method of ['GET', 'HEAD', 'DELETE']) {
      const binding = { ...refund, method, path: '/v1/payments/{id}' };
      expect(build(binding, { id: 7, 'a b': 'c&d', flag: false })).toEqual({
        method,
        path: '/v1/payments/7?a%20b=c%26d&flag=false',
        headers: [],
        body: null,
      });
    }
  });

  it('has the arguments in its query if the binding declares no body', () => {
    const binding: Binding = { ...refund, path: '/v1/x', body: 'none' };
    expect(build(binding, { a: '1' })).toMatchObject({
      path: '/v1/x?a=1',
      headers: [],
      body: null,
    });
  });

  it('has a form as its body if the binding declares a form', () => {
    const binding: Binding = { ...refund, path: '/v1/x', body: 'form' };
    expect(build(binding, { a: 'ü&=', b: 2 })).toMatchObject({
      path: '/v1/x',
      headers: ['content-type', 'application/x-www-form-urlencoded'],
      body: 'a=%C3%BC%26%3D&b=2',
    });
  });

  it('has an empty JSON object as its body if there are no arguments', () => {
    expect(build({ ...refund, path: '/v1/x' }, {}).body).toBe('{}');
  });

  it.each(['{"payment_id":"p","__proto__":{"a":1}}', '{"payment_id":"p","of":{"__proto__":1}}'])(
    'is refused if it has an argument named __proto__, which an upstream could merge into an object: %s',
    (text) => {
      expect(() => build(refund, JSON.parse(text) as JsonObject)).toThrow('__proto__');
    },
  );

  it('omits arguments that are undefined', () => {
    expect(build(refund, { payment_id: 'p', a: undefined }).body).toBe('{}');
  });

  it.each<[string, JsonObject, string]>([
    ['a missing path parameter', {}, 'args.schema_invalid'],
    ['an object in the path', { payment_id: {} }, 'args.schema_invalid'],
    ['null in the path', { payment_id: null }, 'args.schema_invalid'],
    ['a list in the query', { payment_id: 'p', dry_run: [1] }, 'args.schema_invalid'],
    ['a slash in the path', { payment_id: 'a/b' }, 'proxy.path_refused'],
    ['dot segments in the path', { payment_id: '..' }, 'proxy.path_refused'],
    ['a percent-encoding in the path', { payment_id: '%2e%2e' }, 'proxy.path_refused'],
    ['an empty path parameter', { payment_id: '' }, 'proxy.path_refused'],
    ['an unpaired surrogate in the path', { payment_id: '\ud800' }, 'proxy.path_refused'],
    [
      'an unpaired surrogate in the query',
      { payment_id: 'p', dry_run: '\ud800' },
      'args.encoding_invalid',
    ],
    ['names that differ in case only', { payment_id: 'p', Payment_Id: 'q' }, 'args.ambiguous'],
    ['_method', { payment_id: 'p', _method: 'DELETE' }, 'proxy.method_refused'],
    ['_method for PHP', { payment_id: 'p', '.method': 'DELETE' }, 'proxy.method_refused'],
  ])('cannot be built from arguments with %s', (_, args, code) => {
    expect(codeOf(() => build(refund, args))).toBe(code);
  });

  it('contains only those headers of the agent that the binding allows', () => {
    const sent = [
      'Accept',
      'text/plain',
      'accept',
      'application/json',
      'User-Agent',
      'bot',
      'Authorization',
      'Bearer x',
      'Cookie',
      'a=b',
      'X-Tenant',
      't1',
      'Content-Type',
      'x/y',
      'Content-Encoding',
      'gzip',
      'X-Forwarded-For',
      '1.1.1.1',
      'Host',
      'evil',
      'Accept-Encoding',
      'gzip',
      'traceparent',
      '00-1',
      'Action-Passport',
      'ey',
      'Mcp-Name',
      'x',
      'Expect',
      '100',
    ];
    expect(build(refund, { payment_id: 'p' }, sent).headers).toEqual([
      'accept',
      'text/plain, application/json',
      'user-agent',
      'bot',
      'x-tenant',
      't1',
      'traceparent',
      '00-1',
      'content-type',
      'application/json',
    ]);
  });

  it('is refused if a header that permits only one value occurs twice', () => {
    const sent = ['X-Tenant', 'a', 'x-tenant', 'b'];
    expect(codeOf(() => build(refund, { payment_id: 'p' }, sent))).toBe('proxy.request_invalid');
  });

  it('omits forbidden headers even if a stored binding allows them', () => {
    const binding = { ...refund, headers: ['Host', 'Transfer-Encoding', 'X-HTTP-Method-Override'] };
    const sent = ['Host', 'a', 'Transfer-Encoding', 'b', 'X-HTTP-Method-Override', 'DELETE'];
    expect(build(binding, { payment_id: 'p' }, sent).headers).toEqual([
      'content-type',
      'application/json',
    ]);
  });

  it('has a target of printable ASCII only, for any arguments', () => {
    const text = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(text, fc.dictionary(text, text), (id, rest) => {
        const binding = { ...refund, method: 'GET', path: '/v1/{id}' };
        try {
          expect(build(binding, { ...rest, id }).path).toMatch(/^[!-~]+$/);
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError);
        }
      }),
    );
  });
});

describe('the request that execute sends', () => {
  const forwarded: Binding = {
    ...refund,
    upstream: {
      url: 'https://Payments.internal:8443/api/{payment_id}/refunds{?dry_run}',
      method: 'PUT',
      headers: { 'X-Env': 'prod', 'Content-Type': 'text/evil' },
    },
  };

  it('is built from the upstream’s URL, method and headers', () => {
    const { body, ...rest } = buildUpstreamRequest(forwarded, { payment_id: 'p', amount: 1 });
    expect({ ...rest, body: body?.toString() }).toEqual({
      scheme: 'https',
      host: 'payments.internal',
      port: 8443,
      method: 'PUT',
      path: '/api/p/refunds',
      headers: ['content-type', 'application/json', 'x-env', 'prod'],
      body: '{"amount":1}',
    });
  });

  it('has the arguments in its query if the method is GET, even if the binding declares a form', () => {
    const upstream = { url: 'http://127.0.0.1:9000', method: 'GET' };
    const built = buildUpstreamRequest({ ...forwarded, body: 'form', upstream }, { a: 'b' });
    expect(built).toMatchObject({ host: '127.0.0.1', port: 9000, path: '/?a=b', body: null });
  });

  it('cannot be built without an upstream', () => {
    expect(codeOf(() => buildUpstreamRequest(refund, {}))).toBe('binding.invalid');
  });

  it.each([
    'ftp://a/',
    'https://',
    '//a/b',
    'https://user@a/',
    'https://a/#x',
    'https://a\\b/',
    'https://a b/',
    'javascript:alert(1)',
    '',
  ])('cannot be sent to the upstream URL %s', (url) => {
    expect(readUpstreamUrl(url)).toBeUndefined();
  });

  it('contains an IPv6 literal without its brackets', () => {
    expect(readUpstreamUrl('http://[::1]:81/x')).toEqual({
      scheme: 'http',
      host: '::1',
      port: 81,
      path: '/x',
    });
  });
});
