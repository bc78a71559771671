import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { approvalActions } from '../../../shared/vocabulary/approval-states.ts';
import { decisions } from '../../../shared/vocabulary/verdict.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { roomyLimits } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';

let services: TestServices;
let api: TestApi;
let key: string;
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  api = await startApi(allRoutes(services), services, { limits: roomyLimits });
  key = await api.key();
});
afterAll(async () => {
  await api?.close();
  await services?.close();
});

const timesThatNobodyKeeps = [
  '0000-01-01T00:00:00Z',
  '2026-01-01T00:00:00+23:59',
  '9999-12-31T23:59:59-14:00',
  `2026-01-01T00:00:00.${'1'.repeat(200)}Z`,
];

describe('a time outside the range of the database', () => {
  it.each(timesThatNobodyKeeps)(
    'is refused as a limit of a time filter for evidence: %.40s',
    async (time) => {
      for (const bound of ['from', 'to']) {
        const path = `/api/v1/evidence/events?${bound}=${encodeURIComponent(time)}`;
        const answer = await api.send('GET', path, { key });
        expect(answer).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
      }
    },
  );

  it.each(timesThatNobodyKeeps)('is refused as the expiry of a key: %.40s', async (expires_at) => {
    const body = { name: 'x', role: 'auditor', expires_at };
    const answer = await api.send('POST', '/api/v1/keys', { key, body });
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });
});

it('a time filter accepts a time in any existing time zone', async () => {
  for (const time of ['2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00+14:00']) {
    const path = `/api/v1/evidence/events?from=${encodeURIComponent(time)}`;
    expect((await api.send('GET', path, { key })).status).toBe(200);
  }
});

describe('the filter parameter `decision`', () => {
  it.each(['events', 'stream', 'export'])(
    'is refused with an unknown value, and the error lists the accepted values: /v1/evidence/%s',
    async (name) => {
      const path = `/api/v1/evidence/${name}?decision=dney`;
      const answer = await api.send('GET', path, { key });
      expect(answer).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
      expect(answer.body?.error).toMatch(
        /^decision: must be one of allow, deny, warn, require_approval, .*approve, .*expire\.$/,
      );
    },
  );

  it.each([...decisions, ...approvalActions])('accepts the value %s', async (decision) => {
    const path = `/api/v1/evidence/events?decision=${decision}`;
    expect((await api.send('GET', path, { key })).status).toBe(200);
  });
});

describe('a number in a path or query', () => {
  it.each(['0x1', '1e0', '%201', '1.0', '+1', '01', '-1', '2147483648', '9223372036854775808'])(
    'is refused in a path unless it is a plain decimal number in the valid range: %s',
    async (id) => {
      const policy = await api.send('GET', `/api/v1/policies/${id}`, { key });
      expect(policy).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
      const path = `/api/v1/approvals/${id}/decide`;
      const approval = await api.send('POST', path, { key, body: { action: 'deny' } });
      expect(approval).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
    },
  );

  it.each(['limit=1e2', 'limit=0x10', 'limit=', 'limit=0', 'limit=1001', 'cursor=1e3', 'cursor=0'])(
    'is refused in a query if it is malformed or out of range: %s',
    async (query) => {
      expect((await api.send('GET', `/api/v1/approvals?${query}`, { key })).status).toBe(400);
    },
  );
});

it('a tool with the longest permitted name is registered, and its event is sealed', async () => {
  const name = 't'.repeat(256);
  const body = { manifest: { name } };
  expect((await api.send('POST', '/api/v1/tools/ingest', { key, body })).status).toBe(200);
  const chain = encodeURIComponent(`tool:${name}`);
  const events = await api.send('GET', `/api/v1/evidence/events?chain_id=${chain}`, { key });
  expect(events.body?.events).toHaveLength(1);
});
