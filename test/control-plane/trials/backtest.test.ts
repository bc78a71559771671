import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import { createPolicy, deletePolicy } from '../../../shared/contract/policies/policies.ts';
import { type BacktestReport, backtestPolicy } from '../../../shared/contract/policies/trials.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

let stage: Awaited<ReturnType<typeof preflightStage>>;
beforeAll(async () => {
  stage = await preflightStage();
}, 60_000);
afterAll(() => stage?.gateway.close());

const over = (limit: number) => ({ path: 'args.amount', operator: '>', value: limit });
const tool = (value: string) => ({ path: 'tool.name', operator: '==', value });
const candidate = (...rules: object[]) => ({ id: 'p1', version: 2, rules });
const asPublished = [
  rule('allow', 'pay'),
  rule('deny', 'shell'),
  rule('require_approval', 'refund'),
  rule('warn', 'mail'),
];

let from = 0;
/** Advances the clock and returns its time, so that a test can select the events from this time on. */
function now(): string {
  stage.gateway.services.clock.advance(1_000);
  from = stage.gateway.services.clock.now();
  return new Date(from).toISOString();
}

const backtest = (body: object, client = stage.gateway.owner) =>
  client.call(backtestPolicy, { body: body as never });

/** Makes new preflight decisions and backtests a candidate policy on them. */
async function judgedAgain(
  actions: readonly object[],
  policy: object,
  more: object = {},
): Promise<{ report: BacktestReport; ids: readonly string[] }> {
  const since = now();
  const ids: string[] = [];
  for (const action of actions) {
    const answer = await stage.gateway.post('/v1/actions/preflight', stage.action(action));
    ids.push(String(answer.body?.evidence_event_id));
  }
  return { report: await backtest({ policy, from: since, ...more }), ids };
}

describe('backtesting a candidate policy', () => {
  it('returns the number of decisions that would change, and the old and new decision of each', async () => {
    const actions = ['pay', 'shell', 'refund', 'mail', 'pay'].map((one) => ({ tool: one }));
    const policy = candidate(rule('deny', 'pay'), rule('allow', 'shell'), ...asPublished.slice(2));
    const { report, ids } = await judgedAgain(actions, policy);
    expect(report).toMatchObject({
      examined: 5,
      changed: 3,
      unknown: 0,
      not_by_policy: 0,
      counts: { 'allow→deny': 2, 'deny→allow': 1 },
      next_cursor: null,
    });
    expect(report.changes[0]).toEqual({
      event_id: ids[0],
      occurred_at: new Date(from).toISOString(),
      tool: 'pay',
      agent_id: stage.agentId,
      old: 'allow',
      new: 'deny',
      old_reason_code: 'test.allow',
      reason_code: 'test.deny',
      matched_rules: ['p1/deny pay'],
    });
    expect(report.changes.map(({ event_id }) => event_id)).toEqual([ids[0], ids[1], ids[4]]);
  });

  it('reports no change for the published policy', async () => {
    const actions = ['pay', 'shell', 'refund', 'mail'].map((one) => ({ tool: one }));
    const { report } = await judgedAgain(actions, candidate(...asPublished));
    expect(report).toMatchObject({ examined: 4, changed: 0, unknown: 0 });
  });

  it('denies calls without a passport if the candidate has mode strict', async () => {
    const { report } = await judgedAgain([{ tool: 'pay' }, { tool: 'shell' }], {
      ...candidate(...asPublished),
      mode: 'strict',
    });
    expect(report).toMatchObject({ examined: 2, unknown: 0, counts: { 'allow→deny': 1 } });
    expect(report.changes[0]).toMatchObject({ new: 'deny', reason_code: 'passport.missing' });
  });

  it('reports no change if a strict candidate applies only to other tools', async () => {
    const { report } = await judgedAgain([{ tool: 'pay' }], {
      ...candidate(rule('deny')),
      id: 'crm-only',
      mode: 'strict',
      applies_to: { tools: ['crm.*'] },
    });
    expect(report).toMatchObject({ examined: 1, unknown: 0, changed: 0 });
  });

  it('reports a decision as unknown if it depends on an argument whose value is unknown', async () => {
    const large = { ...rule('deny', 'pay'), when: { all: [tool('pay'), over(10)] } };
    const { report, ids } = await judgedAgain(
      [{ args: { amount: 5 } }, { args: { amount: 5_000 } }, { args: { amount: '5000' } }],
      candidate(large, ...asPublished),
    );
    expect(report).toMatchObject({ examined: 3, changed: 0, unknown: 3, changes: [] });
    expect(report.unknowns).toEqual(
      ids.map((event_id) => ({ event_id, tool: 'pay', unsure_rules: ['p1/deny pay'] })),
    );
  });

  it('uses the names and kinds of arguments that the ledger contains', async () => {
    const large = { ...rule('deny', 'pay'), when: { all: [tool('pay'), over(10)] } };
    const listed = {
      ...rule('deny', 'pay'),
      name: 'no recipient',
      reason: 'test.no_recipient',
      when: { all: [tool('pay'), { path: 'args.to', operator: '!=', value: 'x' }] },
    };
    const { report } = await judgedAgain(
      [
        { args: {} },
        { args: { amount: true } },
        { args: { amount: null } },
        { args: { amount: { over: 1 } } },
      ],
      candidate(large, ...asPublished),
    );
    expect(report).toMatchObject({ examined: 4, changed: 0, unknown: 0 });
    const missing = await judgedAgain(
      [{ args: {} }, { args: { to: 5 } }, { args: { to: 'y' } }, { args: { to: { a: 1 } } }],
      candidate(listed, ...asPublished),
    );
    expect(missing.report).toMatchObject({
      changed: 2,
      unknown: 1,
      counts: { 'allow→deny': 2 },
    });
    expect(missing.report.changes[0]?.reason_code).toBe('test.no_recipient');
  });

  it('reports the decision as known and the reason as unknown if only the reason is uncertain', async () => {
    const large = {
      ...rule('deny', 'pay'),
      name: 'large',
      reason: 'test.large',
      when: { all: [tool('pay'), over(10)] },
    };
    const { report } = await judgedAgain([{}], candidate(large, rule('deny', 'pay')));
    expect(report).toMatchObject({ changed: 1, unknown: 0 });
    expect(report.changes[0]).toMatchObject({ new: 'deny', reason_code: null });
  });

  it('skips decisions that were not made by a policy', async () => {
    const { passport } = await stage.passportFor({ allowed_tools: ['other'] });
    const { report } = await judgedAgain(
      [{ passport }, { passport: 'nonsense', mode: 'strict' }, { mode: 'strict' }],
      candidate(rule('allow')),
    );
    expect(report).toMatchObject({ examined: 3, not_by_policy: 3, changed: 0, unknown: 0 });
  });

  it('counts a denial in mode warn as a warning', async () => {
    const actions = [
      { tool: 'pay', mode: 'warn' },
      { tool: 'shell', mode: 'warn' },
    ];
    const { report } = await judgedAgain(actions, candidate(rule('deny')));
    expect(report.counts).toEqual({ 'allow→warn': 1 });
  });

  it('replaces the published policy with the candidate’s id, and keeps the other policies', async () => {
    const guard = { id: 'guard', version: 1, rules: [rule('deny', 'pay')] };
    const { report } = await judgedAgain([{ tool: 'pay' }, { tool: 'mail' }], guard);
    expect(report.counts).toEqual({ 'allow→deny': 1 });
    const alone = await judgedAgain([{ tool: 'pay' }, { tool: 'mail' }], guard, { beside: false });
    expect(alone.report.counts).toEqual({ 'allow→deny': 1, 'warn→deny': 1 });
    expect(alone.report.changes[1]?.reason_code).toBe('policy.no_match');
  });
});

describe('a decision with an approval', () => {
  it('remains allowed by the approval, unless the candidate denies the action', async () => {
    const since = now();
    const asked = await stage.ask({ tool: 'refund' });
    const anna = await stage.gateway.as({ role: 'approver', principal: 'anna' });
    const { event_hash } = await anna.call(decideApproval, {
      params: { id: String(asked.approval_request_id) },
      body: { action: 'approve' },
    });
    const { passport } = await stage.passportFor({ approval_hash: event_hash });
    const used = await stage.ask({ tool: 'refund', passport });
    expect(used.reason_code).toBe('approval.satisfied');
    const stricter = await backtest({
      policy: candidate(rule('require_approval')),
      from: since,
    });
    // The two decisions are the request for approval and the call that the approval allowed.
    expect(stricter).toMatchObject({ examined: 2, changed: 0, unknown: 0 });
    const denying = await backtest({ policy: candidate(rule('deny')), from: since });
    expect(denying.counts).toEqual({ 'allow→deny': 1, 'require_approval→deny': 1 });
  });
});

describe('the examined decisions', () => {
  it('are read in pages, each decision once, with the cursor of the previous response', async () => {
    const since = now();
    const actions = Array.from({ length: 7 }, () => ({ tool: 'pay' }));
    const policy = candidate(rule('deny', 'pay'));
    const { ids } = await judgedAgain(actions, policy);
    const seen: string[] = [];
    let cursor: string | null | undefined;
    let pages = 0;
    do {
      const page: BacktestReport = await backtest({
        policy,
        from: since,
        limit: 3,
        ...(cursor === undefined ? {} : { cursor }),
      });
      expect(page.examined).toBeLessThanOrEqual(3);
      seen.push(...page.changes.map(({ event_id }) => event_id));
      cursor = page.next_cursor;
      pages += 1;
    } while (cursor !== null && pages < 10);
    expect(seen).toEqual(ids);
    expect(pages).toBe(3);
  });

  it('come from many pages of the ledger, in ascending order of position', async () => {
    const since = now();
    const calls = Array.from({ length: 450 }, () =>
      stage.gateway.post('/v1/actions/preflight', stage.action()),
    );
    await Promise.all(calls);
    const report = await backtest({ policy: candidate(rule('deny', 'pay')), from: since });
    expect(report).toMatchObject({ examined: 450, changed: 450, next_cursor: null });
    const { db } = stage.gateway.services;
    const rows = await db.evidenceRow.findMany({
      where: { tenantId: 'default', type: 'decision', occurredAt: { gte: new Date(since) } },
      orderBy: { position: 'asc' },
    });
    expect(report.changes.map(({ event_id }) => event_id)).toEqual(
      rows.map(({ eventId }) => eventId),
    );
  });

  it('are the decisions of the requested time range, and no other events', async () => {
    const early = now();
    await stage.ask();
    const late = now();
    await stage.ask();
    const { id } = await stage.gateway.owner.call(createPolicy, {
      body: { name: 'n', rules_json: { id: 'unrelated', version: 1, rules: [] } },
    });
    await stage.gateway.owner.call(deletePolicy, { params: { id } });
    const policy = candidate(rule('deny'));
    expect(await backtest({ policy, from: early })).toMatchObject({ examined: 2 });
    expect(await backtest({ policy, from: late })).toMatchObject({ examined: 1 });
    expect(await backtest({ policy, from: early, to: early })).toMatchObject({ examined: 1 });
  });

  it('exclude other tenants', async () => {
    const stranger = await stage.gateway.as({ tenantId: 'other' });
    await stage.ask();
    const report = await backtest({ policy: candidate(rule('deny')) }, stranger);
    expect(report).toMatchObject({ examined: 0, changed: 0 });
    const own = await backtest({ policy: candidate(rule('deny')), limit: 1 });
    const stolen = backtest({ policy: candidate(), cursor: own.next_cursor }, stranger);
    expect((await refusalOf(stolen)).code).toBe('evidence.cursor_invalid');
  });

  it('are not changed, and nothing is stored', async () => {
    const { db } = stage.gateway.services;
    const before = [await db.evidenceRow.count(), await db.policy.count()];
    await backtest({ policy: candidate(rule('deny')) });
    expect([await db.evidenceRow.count(), await db.policy.count()]).toEqual(before);
  });
});

describe('a backtest request', () => {
  it.each([
    ['an invalid policy', { policy: candidate(rule('permit')) }, 'policy.invalid'],
    ['no policy', {}, 'args.schema_invalid'],
    ['an unknown field', { policy: {}, policies: [] }, 'args.schema_invalid'],
    ['too many decisions in one page', { policy: {}, limit: 10_001 }, 'args.schema_invalid'],
    [
      'a time range that ends before it begins',
      { policy: {}, from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' },
      'args.schema_invalid',
    ],
    ['an invalid cursor', { policy: candidate(), cursor: 'AAAA' }, 'evidence.cursor_invalid'],
  ])('is refused if it has %s', async (_what, body, code) => {
    expect((await refusalOf(backtest(body))).code).toBe(code);
  });
});
