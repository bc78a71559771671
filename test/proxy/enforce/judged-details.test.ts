import { expect, it } from 'vitest';
import type { EnforceDeps } from '../../../proxy/enforce/deps.ts';
import { withJudged } from '../../../proxy/enforce/judged-details.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { Binding } from '../../../shared/binding/binding.ts';

const http = (name: string, host: string, path = '/'): Binding => ({
  name,
  host,
  path,
  protocol: 'http',
  method: 'POST',
  tool: `pay.${name}`,
});
const mcp = (name: string, host: string): Binding => ({ name, host, protocol: 'mcp' });

function judged(host: string, bindings: readonly Binding[], reasonCode = 'policy.no_match') {
  const deps = {
    replica: { bindings, agent: () => ({ capabilities: ['pay.*', 'mcp.**'] }) },
    identity: { agentId: '7' },
  } as unknown as EnforceDeps;
  const facts = { tool: 't', resource: '/x', host, method: 'GET' };
  const refusal = { form: { kind: 'http' }, reasonCode, message: 'Refused.' } as const;
  const { details, message } = withJudged(refusal as never, { deps, facts } as never);
  return { nearest: (details as JsonObject).nearest, message };
}

it.each([
  [
    'the same host on the nearest port',
    '127.0.0.1:9001',
    ['127.0.0.1:9100', 'localhost:9000'],
    'localhost:9000',
  ],
  [
    'the same host, rather than another on the same port',
    'pay.example:9000',
    ['pax.example:9000', 'pay.example:9443'],
    'pay.example:9443',
  ],
  [
    'a host with a similar name on the same port',
    'pay.example:443',
    ['other.example', 'pey.example'],
    'pey.example',
  ],
  [
    'a host with a similar name, rather than another on the same port',
    'pay.example:9000',
    ['other.test:9000', 'pey.example:9000'],
    'pey.example:9000',
  ],
  [
    'any host on the same port',
    'payments.test:9000',
    ['localhost:9100', 'localhost:9000'],
    'localhost:9000',
  ],
])('a refusal on an unbound host names %s', (_what, host, bound, nearest) => {
  const bindings = bound.map((one, at) => http(`b${at}`, one));
  expect(judged(host, bindings).nearest).toEqual({
    host: nearest,
    binding: `b${bound.indexOf(nearest)}`,
  });
});

it('a refusal on an unbound host names no dissimilar host if the port is 443', () => {
  expect(judged('pay.test:443', [http('b', 'crm.example')]).nearest).toBeUndefined();
});

it('a refusal of an unbound path lists the calls that are bound on its host', () => {
  const bindings = [
    http('refund', 'localhost:9000', '/refunds/{id}'),
    mcp('crm', 'localhost:9000'),
    http('other', 'localhost:9100'),
  ];
  const { message } = judged('localhost:9000', bindings, 'proxy.unbound_call');
  expect(message).toContain(
    'Bound on localhost:9000: refund (POST /refunds/{id}), crm (MCP at /mcp).',
  );
  const twelve = Array.from({ length: 12 }, (_, at) => http(`b${at}`, 'localhost:9000', `/${at}`));
  expect(judged('localhost:9000', twelve, 'proxy.unbound_call').message).toContain(
    'b9 (POST /9), and 2 more.',
  );
});

it('a refusal of a bound call does not list the bindings of its host', () => {
  expect(judged('localhost:9000', [http('b', 'localhost:9000')]).message).toMatch(
    /host localhost:9000\.$/,
  );
});
