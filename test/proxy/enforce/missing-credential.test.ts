import { expect, it } from 'vitest';
import { lacksCredential, MissingCredentials } from '../../../proxy/enforce/missing-credential.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import { silentLog } from '../../../shared/log.ts';
import { manualClock } from '../../support/manual-clock.ts';

const binding: Binding = { name: 'pay', protocol: 'http', host: '127.0.0.1:9000' };

function reporting(hosts: readonly string[]) {
  const clock = manualClock();
  const warned: unknown[] = [];
  const log = { ...silentLog, warn: (fields: unknown) => void warned.push(fields) };
  const missing = new MissingCredentials({ credentials: { hosts: () => hosts }, clock, log });
  return { clock, warned, missing };
}

it.each([
  ['another port', '127.0.0.1:9001', '127.0.0.1:9000'],
  ['another name of this machine', 'localhost:9000', '127.0.0.1:9000'],
  ['the IPv6 loopback', '[::1]:9000', '127.0.0.1:9000'],
  ['the port of https', 'api.example', 'api.example:8443'],
  ['the same host and other tools', 'api.example', 'api.example'],
])('warns if a credential is bound to %s', (_what, bound, host) => {
  const { missing, warned } = reporting(['other.example', bound]);
  missing.report({ ...binding, host }, 200);
  expect(warned).toEqual([{ binding: 'pay', host, credential_host: bound, status: 200 }]);
});

it.each([401, 403])('warns without a near credential if the upstream answers %i', (status) => {
  const { missing, warned } = reporting([]);
  missing.report(binding, status);
  expect(warned).toEqual([
    { binding: 'pay', host: '127.0.0.1:9000', credential_host: null, status },
  ]);
});

it.each([200, 404, 500, undefined])(
  'is silent about a public upstream that answers %s',
  (status) => {
    const { missing, warned } = reporting(['other.example']);
    missing.report(binding, status);
    expect(warned).toEqual([]);
  },
);

it('warns once a minute for each binding', () => {
  const { missing, warned, clock } = reporting([]);
  for (let count = 0; count < 10; count++) missing.report(binding, 401);
  missing.report({ ...binding, name: 'other' }, 401);
  expect(warned).toHaveLength(2);
  clock.advance(60_000);
  missing.report(binding, 401);
  expect(warned).toHaveLength(3);
});

it('does not concern unbound hosts and hosts that are passed through', () => {
  expect(lacksCredential(undefined, undefined)).toBe(false);
  expect(lacksCredential({ ...binding, protocol: 'passthrough' }, undefined)).toBe(false);
  expect(lacksCredential(binding, undefined)).toBe(true);
});
