import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { roomyLimits } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import {
  type PolicyFolder,
  policyFolder,
  refundsPolicy,
} from '../../support/policy/policy-files.ts';

let services: TestServices;
let api: TestApi;
let owner: Client;
let folder: PolicyFolder;
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  api = await startApi(allRoutes(services), services, { limits: roomyLimits });
  const key = await api.key();
  owner = await api.client(key);
  folder = policyFolder({ SALLYPORT_CONTROL_PLANE_URL: api.origin, SALLYPORT_API_KEY: key });
  folder.write('refunds.policy.yaml', refundsPolicy());
  folder.write('freeze.policy.yaml', freeze);
  await policy('push', 'refunds.policy.yaml', '--publish');
  for (const resource of ['giftcard:1', 'giftcard:2', 'payment:1']) await ask(resource);
});
afterAll(async () => {
  folder?.remove();
  await api?.close();
  await services?.close();
});

const freeze = `id: freeze
version: 1
rules:
  - name: no gift cards
    decision: deny
    reason: refund.gift_card
    when: { all: [{ path: resource.type, operator: ==, value: giftcard }] }
`;
const policy = (...args: readonly string[]) => folder.sallyport('policy', ...args);
const ask = (resource: string) =>
  owner.call(preflight, {
    body: {
      tool: 'payments.refund',
      resource,
      args: { amount: 40 },
      agent_id: '1',
      user_id: 'ada',
    },
  });

describe('policy backtest', () => {
  it('reports past decisions that would change, and exits with 1', async () => {
    const { code, out, err } = await policy('backtest', 'freeze.policy.yaml', '--last', '1d');
    expect([code, err]).toEqual([1, '']);
    expect(out).toContain('3 past decisions: 2 would change\n  allow→deny: 2\n1 unknown: refunds/');
    // If the amount were more than 1000, another rule would give the reason.
    expect(out.match(/allow refund\.small_in_scope +deny \? +ev_\w+$/gm)).toHaveLength(2);
    const json = await policy(
      'backtest',
      'freeze.policy.yaml',
      '--json',
      '--from',
      '2020-01-01T00:00:00Z',
    );
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({
      examined: 3,
      changed: 2,
      unknown: 1,
      counts: { 'allow→deny': 2 },
      changes: [
        { old: 'allow', new: 'deny' },
        { old: 'allow', new: 'deny' },
      ],
      next_cursor: null,
    });
  });

  it('exits with 0 if no decision changes; a decision is unknown if a value that it needs was not recorded', async () => {
    const { code, out } = await policy('backtest', 'refunds.policy.yaml');
    expect(code).toBe(0);
    expect(out).toContain('3 past decisions: 0 would change\n3 unknown: refunds/small');
    const long = await policy('backtest', 'freeze.policy.yaml', '--to', '2020-01-01T00:00:00Z');
    expect(long).toMatchObject({ code: 0, out: '0 past decisions: 0 would change\n' });
  });

  it('stops at --limit and reports this; with --alone, uses only the policies of the file', async () => {
    const { out } = await policy('backtest', 'freeze.policy.yaml', '--limit', '1');
    expect(out).toMatch(/^1 past decision: /);
    expect(out).toContain('--limit was reached; more decisions match.');
    const alone = await policy('backtest', 'freeze.policy.yaml', '--alone', '--json');
    expect(JSON.parse(alone.out)).toMatchObject({ changed: 3, unknown: 0 });
  });

  it('exits with 2 if the API refuses the request', async () => {
    const { code, out, err } = await policy('backtest', 'freeze.policy.yaml', '--from', 'monday');
    expect([code, out]).toEqual([2, '']);
    expect(err).toContain('from');
  });
});

it('`policy test` runs a case that was downloaded from a stored decision, after its missing values were filled in', async () => {
  const { evidence_event_id: id } = await ask('payment:9');
  const path = `/api/v1/evidence/events/${id}/fixture`;
  const fixture = await api.send('GET', path, { key: await api.key() });
  expect(fixture.status).toBe(200);
  const filled = fixture.text.replaceAll(/^( +amount: ).*$/gm, '$140');
  expect(filled).not.toBe(fixture.text);
  folder.write('stored/stored.cases.yaml', filled);
  folder.write('stored/refunds.policy.yaml', refundsPolicy());
  const { code, out } = await policy('test', 'stored');
  expect(out).toContain(`✓ allow payments.refund ${id}`);
  expect(code).toBe(0);
});
