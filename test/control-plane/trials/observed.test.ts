import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPolicy, deletePolicy } from '../../../shared/contract/policies/policies.ts';
import { getObservedDecisions } from '../../../shared/contract/policies/trials.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

let stage: Awaited<ReturnType<typeof preflightStage>>;
beforeAll(async () => {
  stage = await preflightStage();
}, 60_000);
afterAll(() => stage?.gateway.close());

const tool = (value: string) => ({ path: 'tool.name', operator: '==', value });
const over = (limit: number) => ({ path: 'args.amount', operator: '>', value: limit });
const large = {
  ...rule('deny', 'pay'),
  name: 'large',
  reason: 'watch.large',
  when: { all: [tool('pay'), over(100)] },
};
const middle = {
  ...rule('require_approval', 'pay'),
  name: 'middle',
  reason: 'watch.middle',
  when: { all: [tool('pay'), over(10)] },
};

let count = 0;
async function watch(mode: string, ...rules: object[]): Promise<{ id: number; name: string }> {
  // Each policy is observed in a time range of its own.
  stage.gateway.services.clock.advance(1_000);
  const name = `watch-${++count}`;
  const { id } = await stage.gateway.owner.call(createPolicy, {
    body: { name, rules_json: { id: name, version: 1, mode, rules } as never, publish: true },
  });
  return { id, name };
}
const observed = (id: number, query: object = {}) =>
  stage.gateway.owner.call(getObservedDecisions, { params: { id: String(id) }, query });
const pay = async (amount: number) =>
  (await stage.ask({ args: { amount } })).evidence_event_id as string;
const archive = (id: number) =>
  stage.gateway.owner.call(deletePolicy, { params: { id: String(id) } });

describe('the report on a policy in mode monitor or warn', () => {
  it('counts each decision under its strictest rule’s decision and reason, and under every matching rule', async () => {
    const { id, name } = await watch('monitor', large, middle);
    await pay(5);
    const held = [await pay(50), await pay(60)];
    const denied = await pay(500);
    await stage.ask({ tool: 'shell' });
    const report = await observed(id);
    expect(report).toMatchObject({
      policy_id: id,
      definition_id: name,
      mode: 'monitor',
      examined: 5,
      matched: 3,
      would_refuse: 3,
      by_decision: { deny: 1, require_approval: 2 },
      complete: true,
    });
    expect(report.by_reason).toEqual([
      { decision: 'require_approval', reason_code: 'watch.middle', count: 2 },
      { decision: 'deny', reason_code: 'watch.large', count: 1 },
    ]);
    expect(report.by_rule).toEqual([
      { rule: 'large', decision: 'deny', count: 1 },
      { rule: 'middle', decision: 'require_approval', count: 3 },
    ]);
    expect([...report.examples].sort()).toEqual([...held, denied].sort());
    await archive(id);
  });

  it('counts, in mode warn, decisions that became a warning and decisions that did not change', async () => {
    const { id } = await watch('warn', large, rule('deny', 'shell'));
    expect((await stage.ask({ args: { amount: 500 } })).decision).toBe('warn');
    expect((await stage.ask({ tool: 'shell' })).decision).toBe('deny');
    await pay(5);
    expect(await observed(id)).toMatchObject({
      examined: 3,
      matched: 2,
      would_refuse: 1,
      by_decision: { deny: 2 },
    });
    await archive(id);
  });

  it('covers the time since the publication, unless another time range is requested', async () => {
    await pay(500);
    const { id } = await watch('monitor', large);
    const first = await pay(500);
    stage.gateway.services.clock.advance(1_000);
    const middleOfIt = new Date(stage.gateway.services.clock.now()).toISOString();
    const second = await pay(500);
    stage.gateway.services.clock.advance(1_000);
    await archive(id);
    stage.gateway.services.clock.advance(1_000);
    await pay(500);
    expect(await observed(id)).toMatchObject({ examined: 2, examples: [first, second] });
    expect(await observed(id, { from: middleOfIt })).toMatchObject({ examples: [second] });
  });

  it('contains up to twenty examples, denials first', async () => {
    const { id } = await watch('monitor', large, rule('allow', 'pay'));
    const calls = Array.from({ length: 30 }, (_, n) => pay(n < 25 ? 5 : 500));
    const ids = await Promise.all(calls);
    const report = await observed(id);
    expect(report).toMatchObject({ matched: 30, would_refuse: 5 });
    expect(report.examples).toHaveLength(20);
    expect(new Set(report.examples.slice(0, 5))).toEqual(new Set(ids.slice(25)));
    await archive(id);
  });
});

describe('the report counts no decisions', () => {
  it('of another policy with a rule of the same name', async () => {
    const rules = [rule('deny', 'pay', { name: 'large' })];
    const { id } = await watch('monitor', ...rules);
    const { id: other } = await watch('monitor', rule('deny', 'mail', { name: 'large' }));
    await stage.ask();
    expect(await observed(id)).toMatchObject({ matched: 1 });
    expect(await observed(other)).toMatchObject({ matched: 0, examples: [] });
    await archive(id);
    await archive(other);
  });

  it('for a draft that was never published', async () => {
    const { id } = await stage.gateway.owner.call(createPolicy, {
      body: { name: 'd', rules_json: { id: 'never', version: 1, mode: 'monitor', rules: [large] } },
    });
    await pay(500);
    expect(await observed(id)).toMatchObject({ examined: 0, matched: 0, from: null });
  });

  it('for an enforced policy', async () => {
    const { id } = await watch('enforce', rule('deny', 'pay'));
    await stage.ask();
    expect(await observed(id)).toMatchObject({ examined: 1, matched: 0 });
    await archive(id);
  });
});

describe('the report is refused', () => {
  it('for an unknown policy and for a policy of another tenant', async () => {
    expect((await refusalOf(observed(999_999))).code).toBe('policy.not_found');
    const { id } = await watch('monitor', large);
    const stranger = await stage.gateway.as({ tenantId: 'other' });
    const foreign = stranger.call(getObservedDecisions, { params: { id: String(id) } });
    expect((await refusalOf(foreign)).code).toBe('policy.not_found');
    await archive(id);
  });

  it('for a time range that ends before it begins', async () => {
    const query = { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' };
    expect((await refusalOf(observed(1, query))).code).toBe('request.invalid');
  });
});
