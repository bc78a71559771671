import { afterAll, describe, expect, it } from 'vitest';
import { startProbeApi } from './probe-api.ts';

const { api, services, close } = await startProbeApi({
  tenant: 5,
  control: 3,
  sidecar: 5,
  address: 50,
});
afterAll(close);

describe('request budgets', () => {
  const ask = async (tenantId: string, path = '/api/v1/probe/search', role = 'owner' as const) =>
    api.send(path.endsWith('control') ? 'POST' : 'GET', path, {
      key: await api.key({ tenantId, role }),
    });

  it('refuse the sixth request of a tenant with a budget of five, and state when to retry', async () => {
    for (let left = 4; left >= 0; left--) {
      const answer = await ask('noisy');
      expect(answer.status).toBe(200);
      expect(answer.headers.get('ratelimit')).toMatch(new RegExp(`^"tenant";r=${left};t=\\d+$`));
      expect(answer.headers.get('ratelimit-policy')).toBe('"tenant";q=5;w=60');
    }
    const refused = await ask('noisy');
    expect([refused.status, refused.body?.reason_code]).toEqual([429, 'rate_limited']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await ask('quiet')).status).toBe(200);
  });

  it('are separate for ordinary requests and control operations', async () => {
    for (let request = 0; request < 6; request++) await ask('loud');
    expect((await ask('loud')).status).toBe(429);
    const control = await ask('loud', '/api/v1/probe/control');
    expect([control.status, control.headers.get('ratelimit')?.slice(0, 13)]).toEqual([
      200,
      '"control";r=2',
    ]);
  });

  it('are also consumed by refused requests, except for the budget of control operations', async () => {
    const agent = await api.key({ tenantId: 'knocking', role: 'agent' });
    const knock = () => api.send('POST', '/api/v1/probe/control', { key: agent });
    for (let request = 0; request < 5; request++) expect((await knock()).status).toBe(403);
    expect((await knock()).status).toBe(429);
    expect((await ask('knocking', '/api/v1/probe/control')).status).toBe(200);
  });

  it('are restored after a minute', async () => {
    for (let request = 0; request < 6; request++) await ask('patient');
    services.clock.advance(60_001);
    expect((await ask('patient')).status).toBe(200);
  });

  it('are counted for each address separately if the operation declares its own budget', async () => {
    const ask = () => api.send('POST', '/api/v1/probe/open', { body: 'x' });
    const statuses = [await ask(), await ask(), await ask(), await ask()].map((a) => a.status);
    expect(statuses).toEqual([200, 200, 200, 429]);
  });
});
