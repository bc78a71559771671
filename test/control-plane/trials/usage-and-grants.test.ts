import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideApproval, revokeGrant } from '../../../shared/contract/approvals.ts';
import { simulateActions } from '../../../shared/contract/policies/simulation.ts';
import { backtestPolicy } from '../../../shared/contract/policies/trials.ts';
import { rule } from '../../support/control-plane/gateway.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

const wire = (more: object = {}) =>
  rule('require_approval', 'wire', { approval: { grant: { max_uses: 5, ...more } } });
const candidate = (id: string, ...rules: object[]) => ({ id, version: 1, rules });

let stage: Awaited<ReturnType<typeof preflightStage>>;
beforeAll(async () => {
  stage = await preflightStage();
  await stage.gateway.publish(wire());
}, 60_000);
afterAll(() => stage?.gateway.close());

async function one(body: object) {
  const { results } = await stage.gateway.owner.call(simulateActions, { body: body as never });
  expect(results).toHaveLength(1);
  return results[0];
}

const backtest = (body: object) =>
  stage.gateway.owner.call(backtestPolicy, { body: body as never });

/** Advances the clock and returns its time, so that a test can select the events from this time on. */
function now(): string {
  const { clock } = stage.gateway.services;
  clock.advance(1_000);
  return new Date(clock.now()).toISOString();
}

describe('simulating with usage and grants', () => {
  it('evaluates the budgets of candidate and published policies, with the same result in verdict and trace', async () => {
    const limit = { path: 'usage.calls_1h', operator: '<', value: 2 };
    const name = { path: 'tool.name', operator: '==', value: 'rationed' };
    const budget = { ...rule('allow', 'rationed'), when: { all: [name, limit] } };
    const action = { ...stage.action({ tool: 'rationed' }), mode: 'enforce' };
    const judged = async (more: object = {}) => {
      const result = await one({ ...action, ...more });
      const conditions = result?.trace.flatMap(({ conditions: all }) => all) ?? [];
      const { actual, result: holds } = conditions.find(({ path }) => path === limit.path) ?? {};
      return [result?.decision, actual, holds];
    };
    expect(await judged({ policies: [candidate('b', budget)] })).toEqual(['allow', 0, true]);
    await stage.gateway.publish(budget);
    for (const done of [0, 1]) {
      expect(await judged()).toEqual(['allow', done, true]);
      expect((await stage.ask({ tool: 'rationed' })).decision).toBe('allow');
    }
    expect(await judged()).toEqual(['deny', 2, false]);
    expect(await judged({ policies: [candidate('b', budget)] })).toEqual(['deny', 2, false]);
    expect((await stage.ask({ tool: 'rationed' })).decision).toBe('deny');
  });

  it('finds a standing grant as preflight does, without consuming a use', async () => {
    await stage.gateway.publish(
      rule('require_approval', 'send', { approval: { grant: { max_uses: 5 } } }),
    );
    const asked = await stage.ask({ tool: 'send' });
    const anna = await stage.gateway.as({ role: 'approver', principal: 'anna' });
    const params = { id: String(asked.approval_request_id) };
    await anna.call(decideApproval, { params, body: { action: 'approve', grant: { uses: 1 } } });
    const rehearse = () => one({ ...stage.action({ tool: 'send' }), mode: 'enforce' });
    for (let n = 0; n < 2; n++) {
      expect(await rehearse()).toMatchObject({
        decision: 'allow',
        reason_code: 'approval.satisfied',
        effects: ['spend_approval'],
      });
    }
    expect((await stage.ask({ tool: 'send' })).reason_code).toBe('approval.satisfied');
    expect(await rehearse()).toMatchObject({
      decision: 'require_approval',
      effects: ['open_approval'],
    });
  });
});

describe('backtesting a decision with a standing grant', () => {
  it('reports no change if the rule is the same, and an unknown result if its approval terms differ', async () => {
    const asked = await stage.ask({ tool: 'wire' });
    const anna = await stage.gateway.as({ role: 'approver', principal: 'anna' });
    const id = String(asked.approval_request_id);
    const body = { action: 'approve', grant: { uses: 3 } } as const;
    await anna.call(decideApproval, { params: { id }, body });
    const since = now();
    expect((await stage.ask({ tool: 'wire' })).reason_code).toBe('approval.satisfied');
    const { passport } = await stage.passportFor();
    expect((await stage.ask({ tool: 'wire', passport })).reason_code).toBe('approval.satisfied');
    const over = async (...rules: object[]) => {
      const { examined, changed, unknown, counts } = await backtest({
        policy: candidate('p2', ...rules),
        from: since,
      });
      expect(examined).toBe(2);
      return { changed, unknown, counts };
    };
    expect(await over(wire())).toEqual({ changed: 0, unknown: 0, counts: {} });
    expect(await over(wire({ max_uses: 1 }))).toEqual({ changed: 0, unknown: 2, counts: {} });
    expect(await over(rule('allow', 'wire'))).toMatchObject({ changed: 0, unknown: 0 });
    expect((await over(rule('deny', 'wire'))).counts).toEqual({ 'allow→deny': 2 });
  });

  it('reports a denial if the grant was revoked', async () => {
    const asked = await stage.ask({ tool: 'wire', resource: 'invoice:8' });
    const anna = await stage.gateway.as({ role: 'approver', principal: 'anna' });
    const id = Number(asked.approval_request_id);
    const { event_hash } = await anna.call(decideApproval, {
      params: { id: String(id) },
      body: { action: 'approve', grant: { uses: 3 } },
    });
    const { passport } = await stage.passportFor({ approval_hash: event_hash });
    await anna.call(revokeGrant, { params: { id } });
    const since = now();
    const refused = await stage.ask({ tool: 'wire', resource: 'invoice:8', passport });
    expect(refused.reason_code).toBe('approval.grant_revoked');
    const policy = candidate('p2', wire({ max_uses: 4 }));
    expect(await backtest({ policy, from: since })).toMatchObject({ changed: 0, unknown: 0 });
  });
});
