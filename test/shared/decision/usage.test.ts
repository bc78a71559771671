import { describe, expect, it } from 'vitest';
import { explainVerdict } from '../../../shared/decision/explain.ts';
import { effectIn } from '../../../shared/decision/reach-verdict.ts';
import { hourMs, minuteMs } from '../../../shared/usage/buckets.ts';
import { mayProceed } from '../../../shared/vocabulary/verdict.ts';
import { baseState, nowMs } from '../fixtures.ts';
import { decider, policy, rule, usage } from './usage-stage.ts';

describe('a budget of calls in a policy', () => {
  it('allows exactly the stated number of calls', () => {
    const { ask } = decider(policy([rule('allow', usage('calls_1h', '<', 3))]));
    const decisions = [1, 2, 3, 4, 5].map(() => ask().decision);
    expect(decisions).toEqual(['allow', 'allow', 'allow', 'deny', 'deny']);
  });

  it('is reported with its reset time in the next steps and the details, and resets at this time', () => {
    const { ask } = decider(policy([rule('allow', usage('calls_1h', '<', 2))]));
    ask({}, nowMs);
    ask({}, nowMs + 5 * minuteMs);
    const refused = ask({}, nowMs + 10 * minuteMs);
    // The first call leaves the window at the end of its minute, an hour later.
    const resetsAtMs = nowMs + minuteMs + hourMs;
    const resetsAt = new Date(resetsAtMs).toISOString();
    expect(refused).toMatchObject({ decision: 'deny', reasonCode: 'policy.no_match', resetsAtMs });
    expect(explainVerdict(refused).details).toEqual({ resets_at: resetsAt });
    expect(refused.nextSteps.join()).toContain(resetsAt);
    expect(ask({}, resetsAtMs - 1).decision).toBe('deny');
    expect(ask({}, resetsAtMs).decision).toBe('allow');
  });

  it('causes a denial with the reason of the deny rule that contains it, and with the reset time', () => {
    const { ask } = decider(policy([rule('allow'), rule('deny', usage('calls_24h', '>=', 1))]));
    expect(ask().decision).toBe('allow');
    expect(ask()).toMatchObject({
      decision: 'deny',
      reasonCode: 'test.r1',
      resetsAtMs: nowMs + minuteMs + 24 * hourMs,
    });
  });

  it('can require an approval for further calls; these calls are not counted before they are approved', () => {
    const { ask } = decider(
      policy([rule('allow'), rule('require_approval', usage('calls_1h', '>=', 1))]),
    );
    ask();
    const waiting = ask();
    expect(waiting.decision).toBe('require_approval');
    expect(waiting.nextSteps.join()).toContain('resets at');
    expect(effectIn(waiting, 'count_usage')).toBeUndefined();
    expect(effectIn(waiting, 'open_approval')).toBeDefined();
  });

  it('is not reported as the reason if a rule without a budget denies', () => {
    const { ask } = decider(policy([rule('allow', usage('calls_1h', '<', 1)), rule('deny')]));
    expect(ask()).toMatchObject({ decision: 'deny', reasonCode: 'test.r1', resetsAtMs: undefined });
  });

  it('counts a call whose denial is not enforced, and reports the denial', () => {
    const { ask } = decider(policy([rule('allow', usage('calls_1h', '<', 1))]));
    const monitor = { tenant: { ...baseState.tenant, mode: 'monitor' as const } };
    const verdicts = [1, 2, 3].map(() => ask({}, nowMs, monitor));
    expect(verdicts.map(({ decision }) => decision)).toEqual(['allow', 'deny', 'deny']);
    expect(verdicts.every(mayProceed)).toBe(true);
    expect(verdicts.every((verdict) => effectIn(verdict, 'count_usage'))).toBe(true);
    expect(ask({}, nowMs).decision).toBe('deny');
  });

  it('is counted and reported as observed, but has no effect, if the policy is in mode monitor', () => {
    const { ask } = decider(
      policy([rule('allow')]),
      policy([rule('deny', usage('calls_1h', '>=', 1))], { id: 'watch', mode: 'monitor' }),
    );
    expect(ask()).toMatchObject({ decision: 'allow', observed: [] });
    expect(ask()).toMatchObject({
      decision: 'allow',
      observed: [{ rule: 'watch/r0', decision: 'deny', reason: 'test.r0' }],
    });
  });

  it('can be limited by a value from the context', () => {
    const limit = { path: 'usage.calls_1h', operator: '<', value: { $ref: 'args.limit' } } as const;
    const { ask } = decider(policy([rule('allow', limit)]));
    expect([1, 2, 3].map(() => ask({ limit: 2 }).decision)).toEqual(['allow', 'allow', 'deny']);
  });
});

describe('a budget of a sum in a policy', () => {
  const budget = policy([rule('allow', usage('sum_24h.amount', '<=', 100))]);

  it('includes the value of the call itself, so that no single call exceeds the budget', () => {
    const { ask } = decider(budget);
    expect(ask({ amount: 101 })).toMatchObject({ decision: 'deny', resetsAtMs: undefined });
    expect(ask({ amount: 60 }).decision).toBe('allow');
    expect(ask({ amount: 50 }).decision).toBe('deny');
    expect(ask({ amount: 40 }).decision).toBe('allow');
    expect(ask({ amount: 0.01 })).toMatchObject({
      decision: 'deny',
      resetsAtMs: nowMs + minuteMs + 24 * hourMs,
    });
  });

  it('is not reduced by negative values, and counts numeric text', () => {
    const { ask } = decider(budget);
    expect(ask({ amount: '60' }).decision).toBe('allow');
    expect(ask({ amount: -1000 }).decision).toBe('allow');
    expect(ask({ amount: '-1000' }).decision).toBe('allow');
    expect(ask({ amount: '+041' }).decision).toBe('deny');
    expect(ask({ amount: 40 }).decision).toBe('allow');
  });

  it.each(['20 EUR', '1e1', null, [5], { value: 5 }])(
    'allows no call with the value %j, which cannot be counted',
    (amount) => {
      expect(decider(budget).ask({ amount })).toMatchObject({
        decision: 'deny',
        resetsAtMs: undefined,
      });
    },
  );

  it('also denies calls with values that cannot be counted if a deny rule contains the budget and the budget is exceeded', () => {
    const { ask } = decider(
      policy([rule('allow'), rule('deny', usage('sum_24h.amount', '>', 100))]),
    );
    expect(ask({ amount: 'much' }).decision).toBe('allow');
    expect(ask({ amount: '2e2' }).decision).toBe('deny');
    expect(ask({ amount: '900e-1' }).decision).toBe('deny');
    expect(ask({ amount: '0.5e2' }).decision).toBe('allow');
    expect(ask({ amount: 100 }).decision).toBe('deny');
    expect(ask({ amount: 50 }).decision).toBe('allow');
    expect(ask({ amount: '0.1e2' }).decision).toBe('deny');
    expect(ask({}).decision).toBe('allow');
  });

  it('is exact for decimal fractions', () => {
    const { ask } = decider(policy([rule('allow', usage('sum_24h.amount', '<=', 0.3))]));
    expect([0.1, 0.2, 0.01].map((amount) => ask({ amount }).decision)).toEqual([
      'allow',
      'allow',
      'deny',
    ]);
  });

  it('has separate sums for two paths even if one path is a prefix of the other', () => {
    const { ask } = decider(
      policy([
        rule('allow'),
        rule('deny', usage('sum_24h.order', '>', 5)),
        rule('deny', usage('sum_24h.order.total', '>', 10)),
      ]),
    );
    expect(ask({ order: 5 }).decision).toBe('allow');
    expect(ask({ order: { total: 10 } }).decision).toBe('allow');
    expect(ask({ order: { total: 1 } }).decision).toBe('deny');
    expect(ask({ order: 1 }).decision).toBe('deny');
  });
});
