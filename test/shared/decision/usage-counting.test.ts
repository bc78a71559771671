import { describe, expect, it } from 'vitest';
import { decide } from '../../../shared/decision/decide.ts';
import { reachVerdict } from '../../../shared/decision/reach-verdict.ts';
import type { DecisionState } from '../../../shared/decision/state.ts';
import type { PolicyCondition } from '../../../shared/policy/language/definition.ts';
import { ToolUsage } from '../../../shared/usage/tool-usage.ts';
import { UsageBook } from '../../../shared/usage/usage-book.ts';
import { baseAction, baseState, nowMs, signedPassport } from '../fixtures.ts';
import { decider, isTool, policy, rule, tool, usage } from './usage-stage.ts';

describe('unknown usage', () => {
  const unknown = { usage: undefined };

  it.each(['allow', 'deny', 'require_approval'] as const)(
    'causes a denial if a rule with the decision %s depends on usage',
    (decision) => {
      const { ask } = decider(
        policy([rule('allow'), rule(decision, usage('calls_1h', '>=', 1000))]),
      );
      expect(ask({}, nowMs, unknown)).toMatchObject({
        decision: 'deny',
        reasonCode: 'usage.unknown',
      });
    },
  );

  it('causes no denial if no matching rule depends on usage', () => {
    const large: PolicyCondition = { path: 'args.amount', operator: '>', value: 10 };
    const { ask } = decider(
      policy([rule('allow'), rule('deny', large, usage('calls_1h', '>', 5))]),
    );
    expect(ask({ amount: 5 }, nowMs, unknown).decision).toBe('allow');
    expect(ask({ amount: 50 }, nowMs, unknown).reasonCode).toBe('usage.unknown');
  });

  it('does not change the reason of a denial by a rule that does not depend on usage', () => {
    const { ask } = decider(policy([rule('deny'), rule('allow', usage('calls_1h', '<', 5))]));
    expect(ask({}, nowMs, unknown)).toMatchObject({ decision: 'deny', reasonCode: 'test.r0' });
  });

  it('causes no denial if the policy that depends on usage is in mode monitor or warn', () => {
    for (const mode of ['monitor', 'warn'] as const) {
      const { ask } = decider(
        policy([rule('allow')]),
        policy([rule('deny', usage('calls_1h', '>', 5))], { id: 'other', mode }),
      );
      expect(ask({}, nowMs, unknown).decision).toBe('allow');
    }
  });

  it('has no effect if another alternative of the same rule is true', () => {
    const any = { any: [isTool, usage('calls_1h', '<', 5)] };
    const { ask } = decider(policy([{ decision: 'allow', when: any }]));
    expect(ask({}, nowMs, unknown).decision).toBe('allow');
  });
});

describe('the usage counters', () => {
  it('exist for the tools that a budget names and the agents to which this budget applies', () => {
    const { policies } = decider(
      policy(
        [
          rule('allow', usage('sum_24h.amount', '<', 5)),
          rule('deny', usage('sum_24h.fee', '>', 1)),
        ],
        {
          applies_to: { agents: ['7'] },
        },
      ),
    );
    expect(policies.usage.needsOf(tool, '7')).toEqual({ sums: ['amount', 'fee'] });
    expect(policies.usage.needsOf(tool, '8')).toBeUndefined();
    expect(policies.usage.needsOf('mcp.payments.list', '7')).toBeUndefined();
  });

  it('do not exist for tools without a budget', () => {
    const { policies, ask } = decider(policy([rule('allow')]));
    expect(policies.usage.isEmpty).toBe(true);
    expect(ask().effects).toEqual([]);
  });

  it('exist for all tools that match the glob of a budget', () => {
    const any = { all: [usage('calls_1h', '<', 5)] };
    const { policies } = decider(
      policy([{ decision: 'allow', when: any }], { applies_to: { tools: ['mcp.payments.*'] } }),
    );
    expect(policies.usage.needsOf('mcp.payments.list', '7')).toEqual({ sums: [] });
    expect(policies.usage.needsOf('mcp.mail.send', '7')).toBeUndefined();
  });
});

describe('reaching a verdict with usage', () => {
  const { policies } = decider(policy([rule('allow', usage('calls_1h', '<', 1))]));

  function point(book: UsageBook, spend: () => Promise<boolean>) {
    const count = () => book.count(tool, {}, { nowMs, monotonicMs: 0 });
    const decideWith = ({ passport }: Pick<DecisionState, 'passport'>) => {
      const known = new ToolUsage([book.of(tool)]);
      return decide(baseAction, { ...baseState, policies, usage: known, passport }, nowMs);
    };
    return { decideWith, count, spend, claim: async () => 'claimed' as const };
  }

  it('counts a call if the passport is claimed, but not if the passport was already used', async () => {
    const book = new UsageBook();
    const at = point(book, async () => true);
    const reached = await Promise.all(
      [1, 2, 3].map(() => reachVerdict({ action: baseAction, passport: signedPassport() }, at)),
    );
    expect(reached.map(({ verdict }) => verdict.decision)).toEqual(['allow', 'deny', 'deny']);
    expect(new ToolUsage([book.of(tool)]).callsIn1h(nowMs)).toBe(1);
  });

  it('releases a count only once, even if release is called twice', async () => {
    const book = new UsageBook();
    const { release } = await reachVerdict(
      { action: baseAction, passport: undefined },
      point(book, async () => true),
    );
    release();
    release();
    expect(new ToolUsage([book.of(tool)]).callsIn1h(nowMs)).toBe(0);
  });
});
