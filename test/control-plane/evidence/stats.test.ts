import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import type { EvidenceStats } from '../../../shared/contract/evidence/evidence-reading.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import {
  type Gateway,
  roomyLimits,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';
import { anEvent } from '../../support/ledger/ledger.ts';

let gateway: Gateway;
let api: TestApi;
let tenants = 0;

beforeAll(async () => {
  gateway = await startGateway();
  api = await startApi(evidenceRoutes(gateway.services), gateway.services, { limits: roomyLimits });
});
afterAll(async () => {
  await api.close();
  await gateway.close();
});

async function aLedger(events: readonly EvidenceEvent[]) {
  const tenantId = `stats_${++tenants}`;
  await gateway.services.ledger.sealAll(tenantId, events);
  const key = await api.key({ tenantId, role: 'auditor' });
  return async (query: Readonly<Record<string, string>> = {}) => {
    const path = `/api/v1/evidence/stats?${new URLSearchParams(query)}`;
    const { status, body, text } = await api.send('GET', path, { key });
    expect(status, text).toBe(200);
    return body as unknown as EvidenceStats;
  };
}

const noLatency = { count: 0, p50: null, p90: null, p95: null, p99: null };

describe('the evidence statistics', () => {
  it('are empty for an empty ledger', async () => {
    const stats = await aLedger([]);
    expect(await stats()).toEqual({
      group_by: 'day',
      totals: [],
      decision_counts: [],
      top_deny_reasons: [],
      approval_latency_ms: noLatency,
    });
  });

  it('equal a count of the individual events, in every grouping and time range', async () => {
    const timeOf = (hour: number) => new Date(Date.UTC(2026, 0, 1, hour)).toISOString();
    const decision = fc.record({
      agent_id: fc.constantFrom('1', '2', undefined),
      tool: fc.constantFrom('a', 'b', 'é"\\', undefined),
      decision: fc.constantFrom('allow', 'deny', 'warn'),
      reason_code: fc.constantFrom('r.1', 'r.2', 'R.1', undefined),
      type: fc.constantFrom('decision', 'decision', 'approval.decided', 'custom.note'),
      occurred_at: fc.integer({ min: 0, max: 75 }).map(timeOf),
    });
    const bounds = fc.constantFrom(
      {},
      { from: timeOf(20) },
      { to: timeOf(60) },
      { from: timeOf(24), to: '2026-01-02T23:59:59.9999Z' },
    );
    const grouping = fc.constantFrom('day', 'agent', 'tool');
    await fc.assert(
      fc.asyncProperty(
        fc.array(decision, { maxLength: 60 }),
        fc.array(fc.tuple(grouping, bounds), { minLength: 3, maxLength: 5 }),
        async (fields, queries) => {
          const events = fields.map((one) => anEvent(one as Partial<EvidenceEvent>));
          const stats = await aLedger(events);
          for (const [group_by, times] of queries) {
            const answer = await stats({ group_by, ...times });
            expect(answer).toEqual(countOneByOne(events, group_by, times));
            expect(await stats({ group_by, ...times })).toEqual(answer);
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  it('contain the ten most frequent denial reasons', async () => {
    const events = Array.from({ length: 12 }, (_, reason) =>
      Array.from({ length: reason + 1 }, () =>
        anEvent({ decision: 'deny', reason_code: `r.${reason}` }),
      ),
    ).flat();
    const stats = await aLedger(events);
    const { top_deny_reasons } = await stats();
    expect(top_deny_reasons).toEqual(
      Array.from({ length: 10 }, (_, at) => ({ reason_code: `r.${11 - at}`, count: 12 - at })),
    );
  });

  it('are limited to the newest thousand days and the thousand busiest tools', async () => {
    const events = Array.from({ length: 1_003 }, (_, index) =>
      anEvent({
        tool: `tool.${index}`,
        occurred_at: new Date(Date.UTC(2020, 0, 1 + index)).toISOString(),
      }),
    );
    const stats = await aLedger([...events, anEvent({ ...events[1_002], id: 'ev_again' })]);
    const days = (await stats()).totals.map(({ key }) => key);
    expect(days).toHaveLength(1_000);
    expect([days[0], days.at(-1)]).toEqual(['2020-01-04', '2022-09-29']);
    const tools = await stats({ group_by: 'tool' });
    expect(tools.totals).toHaveLength(1_000);
    expect(tools.decision_counts).toHaveLength(1_000);
    expect(tools.totals[0]).toEqual({ key: 'tool.1002', events: 2, decisions: 2 });
  });

  it('measure the duration of approvals from the request to the decision', async () => {
    const { post, services, publish, agent, api: desk } = gateway;
    await publish(
      rule('require_approval', 'ask'),
      rule('require_approval', 'two', {
        approval: { quorum: 2 },
      }),
    );
    const agentId = await agent();
    const anna = await desk.key({ role: 'approver', principal: 'anna' });
    const bert = await desk.key({ role: 'approver', principal: 'bert' });
    let resources = 0;
    const ask = async (tool: string) => {
      const action = { agent_id: agentId, user_id: 'u', tool, resource: `r:${++resources}` };
      const { body } = await post('/v1/actions/preflight', { ...action, args: {} });
      return `/v1/approvals/${body?.approval_request_id}/decide`;
    };
    const decide = async (path: string, body: object, key: string) =>
      expect((await post(path, body, key)).status).toBe(200);
    const startMs = services.clock.now();
    const confusing = 'x","status":"approved","approval_id":9999 \u2028 "status":"denied"';
    for (const seconds of [10, 20, 30, 40]) {
      const path = await ask('ask');
      services.clock.advance(seconds * 1_000);
      await decide(path, { action: seconds > 20 ? 'deny' : 'approve', comment: confusing }, anna);
    }
    const settledBefore = services.clock.now();
    services.clock.advance(1);
    // With two approvers, the second approval is the decision. A request for context and an expiry
    // are not decisions.
    const two = await ask('two');
    services.clock.advance(60_000);
    await decide(two, { action: 'approve' }, anna);
    services.clock.advance(40_000);
    await decide(two, { action: 'approve' }, bert);
    await decide(await ask('ask'), { action: 'request_context', comment: confusing }, anna);
    const key = await api.key({ role: 'auditor' });
    const latency = async (query = '') => {
      const { body } = await api.send('GET', `/api/v1/evidence/stats${query}`, { key });
      return body?.approval_latency_ms;
    };
    const all = { count: 5, p50: 30_000, p90: 100_000, p95: 100_000, p99: 100_000 };
    expect(await latency()).toEqual(all);
    const to = new Date(settledBefore).toISOString();
    const four = { count: 4, p50: 20_000, p90: 40_000, p95: 40_000, p99: 40_000 };
    expect(await latency(`?to=${to}`)).toEqual(four);
    const from = new Date(startMs + 10_001).toISOString();
    expect(await latency(`?from=${from}&to=${to}`)).toMatchObject({ count: 3, p50: 30_000 });
  });

  it.each(['group_by=week', 'group_by=', 'from=yesterday', 'limit=1', 'tool=a'])(
    'refuse the query %s',
    async (query) => {
      const key = await api.key({ role: 'auditor' });
      const { status, body } = await api.send('GET', `/api/v1/evidence/stats?${query}`, { key });
      expect([status, body?.reason_code]).toEqual([400, 'request.invalid']);
    },
  );
});

/** Computes the statistics event by event, as a slow reference implementation. */
function countOneByOne(
  events: readonly EvidenceEvent[],
  group_by: string,
  { from, to }: { readonly from?: string; readonly to?: string },
): EvidenceStats {
  const wanted = events.filter(
    ({ occurred_at: at }) => (from === undefined || at >= from) && (to === undefined || at <= to),
  );
  const keyOf = (event: EvidenceEvent) =>
    (group_by === 'day'
      ? event.occurred_at.slice(0, 10)
      : group_by === 'agent'
        ? event.agent_id
        : event.tool) ?? null;
  const keys = [...new Set(wanted.map(keyOf))];
  const of = (key: string | null) => wanted.filter((event) => keyOf(event) === key);
  const isDecision = ({ type }: EvidenceEvent) => type === 'decision';
  const byBytes = (a: string | null, b: string | null) =>
    Buffer.compare(Buffer.from(a ?? ''), Buffer.from(b ?? ''));
  keys.sort((a, b) => (group_by === 'day' ? 0 : of(b).length - of(a).length) || byBytes(a, b));
  const totals = keys.map((key) => ({
    key,
    events: of(key).length,
    decisions: of(key).filter(isDecision).length,
  }));
  const decision_counts = keys.flatMap((key) =>
    ['allow', 'deny', 'warn'].flatMap((decision) => {
      const count = of(key).filter((one) => isDecision(one) && one.decision === decision).length;
      return count === 0 ? [] : [{ key, decision, count }];
    }),
  );
  const reasons = Map.groupBy(
    wanted.filter((one) => isDecision(one) && one.decision === 'deny' && one.reason_code),
    ({ reason_code }) => reason_code ?? '',
  );
  const top_deny_reasons = [...reasons]
    .map(([reason_code, { length: count }]) => ({ reason_code, count }))
    .sort((a, b) => b.count - a.count || byBytes(a.reason_code, b.reason_code));
  const approval_latency_ms = noLatency;
  return {
    group_by,
    totals,
    decision_counts,
    top_deny_reasons,
    approval_latency_ms,
  } as EvidenceStats;
}
