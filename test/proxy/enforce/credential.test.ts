import { expect, it } from 'vitest';
import { lacksCredential, MissingCredentials } from '../../../proxy/enforce/credential.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { manualClock } from '../../support/base/manual-clock.ts';

const binding: Binding = { name: 'pay', protocol: 'http', host: '127.0.0.1:9000' };

type Bound = readonly [tools: string, ...hosts: string[]];

/**
 * Creates the reporter for these credentials. Each one has a prefix of tool ids and the hosts that it is
 * bound to.
 */
function reporting(credentials: readonly Bound[]) {
  const clock = manualClock();
  const warned: unknown[] = [];
  const log = { ...silentLog, warn: (fields: unknown) => void warned.push(fields) };
  const bound = () =>
    credentials.map(([tools, ...hosts]) => ({
      hosts,
      matchesTool: (tool: string) => tool.startsWith(tools),
    }));
  const missing = new MissingCredentials({ credentials: { bound }, clock, log });
  return { clock, warned, missing };
}

it.each([
  ['another port', '127.0.0.1:9001', '127.0.0.1:9000'],
  ['another name of this machine', 'localhost:9000', '127.0.0.1:9000'],
  ['the IPv6 loopback', '[::1]:9000', '127.0.0.1:9000'],
  ['the port of https', 'api.example', 'api.example:8443'],
  ['the same host, but for other tools', 'api.example', 'api.example'],
])('a warning is logged if a credential is bound to %s', (_what, bound, host) => {
  const { missing, warned } = reporting([['other', 'other.example', bound]]);
  missing.report({ ...binding, host }, { tool: 'payments.refund', status: 200 });
  expect(warned).toEqual([{ binding: 'pay', host, credential_host: bound, status: 200 }]);
});

it.each<readonly [string, readonly Bound[], string]>([
  [
    'whose tools match, rather than one on another port',
    [
      ['mcp.crm.', '127.0.0.1:9100'],
      ['payments.', '127.0.0.1:9000'],
    ],
    '127.0.0.1:9000',
  ],
  [
    'whose tools match, rather than one on the same port',
    [
      ['mcp.crm.', '127.0.0.1:9000'],
      ['payments.', '127.0.0.1:9100'],
    ],
    '127.0.0.1:9100',
  ],
  [
    'on the same port, if the tools of both match',
    [
      ['payments.', 'localhost:9100'],
      ['payments.', '127.0.0.1:9000'],
    ],
    '127.0.0.1:9000',
  ],
  [
    'with the nearest host name, if tools and port of both match',
    [
      ['payments.', 'api.example:9000'],
      ['payments.', '127.0.0.1:9000'],
    ],
    '127.0.0.1:9000',
  ],
])('the warning names the host of the credential %s', (_what, credentials, nearest) => {
  const { missing, warned } = reporting(credentials);
  missing.report({ ...binding, host: 'localhost:9000' }, { tool: 'payments.refund', status: 200 });
  expect(warned).toMatchObject([{ credential_host: nearest }]);
});

it('the warning names a credential of the tool, even if it is bound to another host, if the upstream responds with 401', () => {
  const { missing, warned } = reporting([['payments.', 'api.example']]);
  missing.report(binding, { tool: 'payments.refund', status: 401 });
  expect(warned).toMatchObject([{ credential_host: 'api.example' }]);
});

it.each([401, 403])(
  'a warning is logged if no credential exists and the upstream responds with %i',
  (status) => {
    const { missing, warned } = reporting([]);
    missing.report(binding, { tool: 'payments.refund', status });
    expect(warned).toEqual([
      { binding: 'pay', host: '127.0.0.1:9000', credential_host: null, status },
    ]);
  },
);

it.each([200, 404, 500, undefined])(
  'no warning is logged if the upstream responds with %s and no similar credential exists',
  (status) => {
    const { missing, warned } = reporting([['other', 'other.example']]);
    missing.report(binding, { tool: 'payments.refund', status });
    expect(warned).toEqual([]);
  },
);

it('the warning is logged at most once a minute for each binding', () => {
  const { missing, warned, clock } = reporting([]);
  for (let count = 0; count < 10; count++)
    missing.report(binding, { tool: 'payments.refund', status: 401 });
  missing.report({ ...binding, name: 'other' }, { tool: 'payments.refund', status: 401 });
  expect(warned).toHaveLength(2);
  clock.advance(60_000);
  missing.report(binding, { tool: 'payments.refund', status: 401 });
  expect(warned).toHaveLength(3);
});

it('a credential is not reported as missing for unbound hosts and passthrough hosts', () => {
  expect(lacksCredential(undefined, undefined)).toBe(false);
  expect(lacksCredential({ ...binding, protocol: 'passthrough' }, undefined)).toBe(false);
  expect(lacksCredential(binding, undefined)).toBe(true);
});
