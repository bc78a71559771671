import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limitsByDefault } from '../../../proxy/recognise/recognise.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { parseStrictJson } from '../../../shared/base/strict-json.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { buildRequest } from '../../../shared/binding/build.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { parseResource } from '../../../shared/vocabulary/resource.ts';
import { formType, jsonType, post, raw } from '../../support/disguises/request.ts';
import { overrideParameters, refusedPaths } from './refused-targets.ts';
import { codeOf, expectAction, RecogniseServer, written } from './support.ts';

const host = 'api.example.com';
const refund: Binding = {
  name: 'refund',
  protocol: 'http',
  host,
  tool: 'payments.refund',
  method: 'POST',
  path: '/v1/payments/{payment_id}/refund{?dry_run}',
  resource: 'payment:{payment_id}',
  headers: ['X-Tenant'],
};
const list: Binding = {
  name: 'list',
  protocol: 'http',
  host,
  tool: 'payments.list',
  method: 'GET',
  path: '/v1/payments/{customer}',
};
const form: Binding = {
  name: 'form',
  protocol: 'http',
  host,
  tool: 'payments.form',
  method: 'POST',
  path: '/v1/form',
  body: 'form',
};
const byCustomer: Binding = {
  name: 'by-customer',
  protocol: 'http',
  host,
  tool: 'payments.search',
  method: 'POST',
  path: '/v1/search',
  resource: 'customer:{customer_id}',
};
const model: Binding = { name: 'model', protocol: 'passthrough', host: 'llm.example.com' };

const server = new RecogniseServer([refund, list, form, byCustomer, model]);
beforeAll(() => server.open());
afterAll(() => server.close());

describe('a bound call', () => {
  it('has the tool and resource of its binding, and arguments from path, query and body', async () => {
    const action = expectAction(
      await server.send(
        post('/v1/payments/pay_1/refund?dry_run=true', { amount: 900, tags: ['a', { b: null }] }, [
          'Action-Passport: eyJ',
          'Action-Goal: gutschreiben für Ada',
          'Action-Idempotency-Key: k1',
          'X-Tenant: t1',
          'Authorization: Bearer agent',
        ]),
      ),
    );
    expect(action).toMatchObject({
      binding: refund,
      tool: 'payments.refund',
      resource: 'payment:pay_1',
      args: { payment_id: 'pay_1', dry_run: 'true', amount: 900, tags: ['a', { b: null }] },
      form: { kind: 'http' },
      hints: { passport: 'eyJ', goal: 'gutschreiben für Ada', idempotencyKey: 'k1' },
    });
    expect(written(action.build(action.args))).toEqual({
      scheme: 'https',
      host,
      port: 443,
      method: 'POST',
      path: '/v1/payments/pay_1/refund?dry_run=true',
      headers: ['x-tenant', 't1', 'content-type', 'application/json'],
      body: '{"amount":900,"tags":["a",{"b":null}]}',
    });
  });

  it('is sent with the modified arguments if a human modified them', async () => {
    const action = expectAction(
      await server.send(post('/v1/payments/pay_1/refund', { amount: 900 })),
    );
    const outgoing = written(action.build({ payment_id: 'pay_2', amount: 10 }));
    expect(outgoing).toMatchObject({ path: '/v1/payments/pay_2/refund', body: '{"amount":10}' });
    expect(() => action.build({ payment_id: '../x', amount: 10 })).toThrow(GatewayError);
  });

  it('has the path as its resource if the binding has no resource template', async () => {
    const action = expectAction(await server.send(raw({ target: '/v1/payments/a%62c?limit=1' })));
    expect(action.resource).toBe('/v1/payments/abc');
  });

  it('is refused if its resource cannot be determined', async () => {
    for (const body of [{}, { customer_id: '' }, { customer_id: null }, { customer_id: ['a'] }]) {
      expect(codeOf(await server.send(post('/v1/search', body)))).toBe('args.schema_invalid');
    }
    const one = expectAction(await server.send(post('/v1/search', { customer_id: 7 })));
    expect(one.resource).toBe('customer:7');
  });

  it('cannot reach Object.prototype through its resource template', async () => {
    const binding = { ...byCustomer, resource: 'x:{constructor}' };
    const other = new RecogniseServer([binding]);
    await other.open();
    expect(codeOf(await other.send(post('/v1/search', {})))).toBe('args.schema_invalid');
    await other.close();
  });

  it('is accepted if its body has exactly the size of the limit, and refused if it has one byte more', async () => {
    const limited = new RecogniseServer([refund], {
      limits: { ...limitsByDefault, bodyBytesMax: 32 },
    });
    await limited.open();
    const body = (length: number) => JSON.stringify({ a: 'x'.repeat(length - 8) });
    const target = '/v1/payments/p/refund';
    expect(codeOf(await limited.send(post(target, body(32))))).toBe('action');
    expect(codeOf(await limited.send(post(target, body(33))))).toBe('args.too_large');
    const chunks = (length: number) =>
      raw({
        method: 'POST',
        target,
        headers: [jsonType, 'Transfer-Encoding: chunked'],
        body: `${length.toString(16)}\r\n${body(length)}\r\n0\r\n\r\n`,
      });
    expect(codeOf(await limited.send(chunks(32)))).toBe('action');
    expect(codeOf(await limited.send(chunks(33)))).toBe('args.too_large');
    await limited.close();
  });

  it('is refused before its body arrives if Content-Length exceeds the limit', async () => {
    const head = raw({
      method: 'POST',
      target: '/v1/payments/p/refund',
      headers: [jsonType, 'Content-Length: 99999999'],
    });
    expect(codeOf(await server.send(head))).toBe('args.too_large');
  });

  it('is refused if its body ends early', async () => {
    const half = raw({
      method: 'POST',
      target: '/v1/payments/p/refund',
      headers: [jsonType, 'Content-Length: 50'],
      body: '{"amount":1',
    });
    expect(['proxy.request_invalid', 'unparsed']).toContain(
      codeOf(await server.send(half, {}, true)),
    );
  });

  it('is recognised on a host that is an IPv6 literal', async () => {
    const other = new RecogniseServer([{ ...refund, host: '[::1]:8080' }]);
    await other.open();
    const where = { scheme: 'http', host: '::1', port: 8080 } as const;
    const seen = await other.send(post('/v1/payments/p/refund', {}), where);
    expect(expectAction(seen).build({ payment_id: 'p' })).toMatchObject({
      host: '::1',
      port: 8080,
    });
    await other.close();
  });

  const name = fc
    .string({ minLength: 1, maxLength: 8 })
    .filter((text) => !['payment_id', 'customer', '_method'].includes(text.toLowerCase()));

  async function roundTrip(binding: Binding, args: JsonObject): Promise<void> {
    let built: ReturnType<typeof buildRequest>;
    try {
      built = buildRequest(binding, args);
      if (built.body) parseStrictJson(Buffer.from(JSON.stringify(args)));
    } catch (error) {
      expect(error).toBeInstanceOf(GatewayError);
      return;
    }
    const type = binding.body === 'form' ? formType : jsonType;
    const request = raw({
      method: built.method,
      target: built.path,
      headers: built.body === null ? [] : [type],
      body: built.body ?? '',
    });
    const action = expectAction(await server.send(request));
    expect(action.tool).toBe(binding.tool);
    // In JSON, minus zero is written as zero.
    expect(action.args).toEqual(JSON.parse(JSON.stringify(args)));
    expect(action.build(action.args)).toMatchObject({ path: built.path, body: built.body });
  }

  it('is recognised with the JSON arguments that it was built from', async () => {
    const args = fc
      .tuple(fc.string({ unit: 'binary' }), fc.dictionary(name, fc.jsonValue({ maxDepth: 3 })))
      .map(([payment_id, rest]): JsonObject => ({ ...(rest as JsonObject), payment_id }));
    await fc.assert(
      fc.asyncProperty(args, (each) => roundTrip(refund, each)),
      { numRuns: 150 },
    );
  });

  it('is recognised with the query and form arguments that it was built from', async () => {
    const texts = fc.dictionary(name, fc.string({ unit: 'binary' }));
    const args = fc
      .tuple(fc.string({ unit: 'binary' }), texts)
      .map(([customer, rest]): JsonObject => ({ ...rest, customer }));
    await fc.assert(
      fc.asyncProperty(args, (each) => roundTrip(list, each)),
      { numRuns: 150 },
    );
    await fc.assert(
      fc.asyncProperty(texts, (each) => roundTrip(form, each)),
      { numRuns: 150 },
    );
  });
});

describe('a call on a host without bindings', () => {
  const where = { scheme: 'https', host: 'www.example.org', port: 443 } as const;

  it('has the tool http.<method>.<host>, its path as resource, and scheme, query and a non-default port as arguments', async () => {
    const plain = expectAction(await server.send(raw({ target: '/a/b' }), where));
    expect(plain).toMatchObject({ tool: 'http.get.www.example.org', resource: '/a/b' });
    expect(plain.args).toEqual({ scheme: 'https' });
    expect(plain.binding).toBeUndefined();
    const elsewhere = { ...where, port: 8443 };
    const odd = await server.send(raw({ method: 'DELETE', target: '/a?b=c' }), elsewhere);
    expect(odd).toMatchObject({
      tool: 'http.delete.www.example.org',
      resource: '/a',
      args: { scheme: 'https', query: 'b=c', port: 8443 },
    });
  });

  it('has its whole path as resource id and no resource type', async () => {
    const segment = fc.string({ unit: fc.constantFrom(...'ab:@=~-'), minLength: 1, maxLength: 6 });
    const path = fc.array(segment, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(path, async (segments) => {
        const target = `/${segments.join('/')}`;
        const action = expectAction(await server.send(raw({ target }), where));
        expect(parseResource(action.resource)).toEqual({ id: target });
      }),
      { numRuns: 50 },
    );
  });

  it('is sent with an uninspected body, and without hop-by-hop, forwarding and Sallyport headers', async () => {
    const action = expectAction(
      await server.send(
        raw({
          method: 'POST',
          target: '/upload?x=1',
          headers: [
            'Content-Type: application/octet-stream',
            'Accept-Encoding: gzip',
            'Authorization: Bearer own',
            'Connection: close, X-Hop',
            'X-Hop: 1',
            'TE: trailers',
            'Proxy-Authorization: Basic eA==',
            'Action-Goal: g',
            'Sallyport-Mode: monitor',
            'X-Forwarded-For: 127.0.0.1',
            'X-Real-IP: 127.0.0.1',
            'Forwarded: for=127.0.0.1',
            'Keep-Alive: 5',
            'Expect: 100-continue',
            'Cookie: a=b',
            'Cookie: c=d',
          ],
          body: Buffer.from([0, 1, 2]),
        }),
        where,
      ),
    );
    const outgoing = action.build(action.args);
    expect(outgoing.body).toBeInstanceOf(Readable);
    expect(outgoing.path).toBe('/upload?x=1');
    expect(outgoing.headers).toEqual([
      'content-type',
      'application/octet-stream',
      'accept-encoding',
      'gzip',
      'authorization',
      'Bearer own',
      'cookie',
      'a=b',
      'cookie',
      'c=d',
    ]);
    expect(action.hints.goal).toBe('g');
  });

  it('is judged and sent with the same normalised path', async () => {
    const action = expectAction(await server.send(raw({ target: '/%61dmin/%c3%bc/a%2fb' }), where));
    expect(action.resource).toBe('/admin/%C3%BC/a%2Fb');
    expect(action.build(action.args).path).toBe('/admin/%C3%BC/a%2Fb');
  });

  it.each(refusedPaths)('is refused with the path %s', async (target) => {
    expect(codeOf(await server.send(raw({ target }), where))).toBe('proxy.path_refused');
  });

  it.each([
    raw({ method: 'POST', target: '/a', headers: ['X-HTTP-Method-Override: DELETE'] }),
    raw({ method: 'GET', target: '/a', headers: ['X-Original-URL: /admin'] }),
    raw({ method: 'POST', target: '/a?_method=delete' }),
    raw({ method: 'POST', target: '/a?x=1;%5Fmethod=delete' }),
    ...overrideParameters.map((name) => raw({ method: 'POST', target: `/a?x=1&${name}=delete` })),
    ...['X-HTTP-Method', 'X_METHOD_OVERRIDE', 'X-HTTP-Verb-Override', 'HTTP-Method-Override'].map(
      (name) => raw({ method: 'POST', target: '/a', headers: [`${name}: DELETE`] }),
    ),
    raw({ method: 'TRACE', target: '/a' }),
  ])(
    'is refused if it is TRACE, or if a header or parameter could override its method or URL (%#)',
    async (request) => {
      expect(codeOf(await server.send(request, where))).toBe('proxy.method_refused');
    },
  );

  it.each([
    'method',
    'payment_method',
    'method_name',
    'methods[]',
    'a.method',
    'x',
    '_methodology',
  ])('keeps the parameter %s, which no framework reads as a method override', async (name) => {
    const query = `${name}=1`;
    const seen = expectAction(await server.send(raw({ target: `/a?${query}` }), where));
    expect(seen.args).toEqual({ scheme: 'https', query });
  });

  it('is sent with a query that a human modified, but refused if this query is invalid', async () => {
    const action = expectAction(await server.send(raw({ target: '/a?b=1' }), where));
    const { scheme = '' } = action.args;
    expect(action.build({ scheme, query: 'b=2' }).path).toBe('/a?b=2');
    expect(action.build({ scheme }).path).toBe('/a');
    for (const wrong of [{ scheme, query: 'b c' }, { scheme, query: 5 }, { scheme: 'http' }, {}]) {
      expect(() => action.build(wrong)).toThrow(GatewayError);
    }
  });
});

describe('a call on a passthrough host', () => {
  it('is forwarded with its target and body unchanged, and without Sallyport headers', async () => {
    const seen = await server.send(
      raw({
        method: 'POST',
        target: '/v1/messages//x?beta=%zz',
        headers: ['x-api-key: own', 'Action-Passport: ey', 'Content-Type: application/json'],
        body: '{"a":1,"a":2}',
      }),
      { host: 'llm.example.com' },
    );
    expect(seen).toMatchObject({ kind: 'pass', what: 'passthrough', form: { kind: 'http' } });
    if (seen === 'unparsed' || seen.kind !== 'pass') throw new Error('no pass');
    expect(seen.outgoing.path).toBe('/v1/messages//x?beta=%zz');
    expect(seen.outgoing.headers).toEqual(['x-api-key', 'own', 'content-type', 'application/json']);
    expect(seen.outgoing.body).toBeInstanceOf(Readable);
  });
});
