import { describe, expect, it } from 'vitest';
import { Credentials } from '../../../proxy/replica/credentials.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { HeldCredential } from '../../../shared/binding/binding.ts';

const credential = (id: string, hosts: string[], tools = ['bank.*']): HeldCredential => ({
  id,
  version: 1,
  secret: `secret of ${id}`,
  inject: { in: 'bearer' },
  bind: { tools, hosts },
});
const bankOn = (host: string) => ({ name: 'pay', protocol: 'http', host }) as const;

function world(first: HeldCredential[]) {
  const state = { held: first, version: 10, fetches: 0, duringFetch: () => {} };
  const credentials = new Credentials({
    fetch: async () => {
      state.fetches += 1;
      const answer = { credentials: state.held, version: state.version };
      state.duringFetch();
      return answer;
    },
    currentVersion: () => String(state.version),
    log: silentLog,
  });
  return { state, credentials };
}

describe('Credentials', () => {
  it('does not use a removed credential, even if the removal caused a lower version', async () => {
    const { state, credentials } = world([credential('a', ['bank.example'])]);
    expect((await credentials.forCall('bank.pay', bankOn('bank.example')))?.id).toBe('a');
    state.held = [];
    state.version = 7;
    expect(await credentials.forCall('bank.pay', bankOn('bank.example'))).toBeUndefined();
  });

  it('fetches again if a credential was replaced during the fetch', async () => {
    const { state, credentials } = world([credential('old', ['bank.example'])]);
    state.duringFetch = () => {
      state.duringFetch = () => {};
      state.held = [credential('new', ['bank.example'])];
      state.version = 11;
    };
    expect((await credentials.forCall('bank.pay', bankOn('bank.example')))?.id).toBe('new');
    expect(state.fetches).toBe(2);
  });

  it('returns no credential for a host, port or tool to which none is bound', async () => {
    const { credentials } = world([credential('a', ['bank.example'])]);
    expect(await credentials.forCall('bank.pay', bankOn('bank.example:8443'))).toBeUndefined();
    expect(await credentials.forCall('bank.pay', bankOn('evil.example'))).toBeUndefined();
    expect(await credentials.forCall('mail.send', bankOn('bank.example'))).toBeUndefined();
  });

  it('discards dropped credentials, even those that are being fetched', async () => {
    const { state, credentials } = world([credential('a', ['bank.example'])]);
    state.duringFetch = () => credentials.drop();
    await expect(credentials.forCall('bank.pay', bankOn('bank.example'))).rejects.toMatchObject({
      code: 'credential.unavailable',
    });
    state.duringFetch = () => {};
    expect((await credentials.forCall('bank.pay', bankOn('bank.example')))?.secret).toBe(
      'secret of a',
    );
  });
});
