import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../../shared/base/json.ts';
import { compilePolicies, PolicyCompiler } from '../../../../shared/policy/engine/compile.ts';
import type { PolicyOutcome } from '../../../../shared/policy/engine/policy-set.ts';
import { replayPolicy } from '../../../../shared/policy/engine/replay.ts';
import type { PolicyContext } from '../../../../shared/policy/language/context.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
} from '../../../../shared/policy/language/definition.ts';
import { policySetHash } from '../../../../shared/policy/language/hash.ts';
import { processorMs } from '../../../support/base/processor-time.ts';
import { context, policies, publish } from '../../../support/policy/policy-arbitraries.ts';
import { interpret } from '../../../support/policy/policy-interpreter.ts';

const runs = { numRuns: 2000 };
const refusals = ['deny', 'require_tool_reapproval', 'require_approval'];

const always: PolicyCondition = { path: 'nothing.there', operator: '!=', value: 1 };
const denyAll: PolicyDefinition = {
  id: 'deny-all',
  version: 1,
  rules: [{ name: 'all', decision: 'deny', reason: 'x.denied', when: { all: [always] } }],
};

function plain({ decision, reasonCode, matchedRules, observed }: PolicyOutcome) {
  return {
    decision,
    reason: reasonCode,
    matched: matchedRules,
    observed: observed.map(({ rule }) => rule),
  };
}

/** Returns an outcome with its lists sorted, because their order must not matter. */
function unordered(outcome: PolicyOutcome) {
  const { decision, matchedRules, observed, approval } = outcome;
  return {
    decision,
    approval,
    matched: [...matchedRules].sort(),
    observed: observed.map(({ rule }) => rule).sort(),
  };
}

describe('a compiled policy set', () => {
  it('makes the same decision as the reference interpreter', () => {
    fc.assert(
      fc.property(policies, context, (published, at) => {
        expect(plain(compilePolicies(published).evaluate(at))).toEqual(interpret(published, at));
      }),
      { numRuns: 6000 },
    );
  });

  it('makes the same decision for any order of policies', () => {
    const shuffled = policies.chain((published) =>
      fc.tuple(
        fc.constant(published),
        fc.shuffledSubarray([...published], { minLength: published.length }),
      ),
    );
    fc.assert(
      fc.property(shuffled, context, ([published, reordered], at) => {
        const [one, other] = [compilePolicies(published), compilePolicies(reordered)];
        expect(other.evaluate(at)).toEqual(one.evaluate(at));
        expect(other.hash).toBe(one.hash);
      }),
      runs,
    );
  });

  it('makes the same decision for any order of the rules in a policy', () => {
    fc.assert(
      fc.property(policies, context, (published, at) => {
        const reversed = published.map(({ id, definition }) =>
          publish(id, { ...definition, rules: [...definition.rules].reverse() }),
        );
        expect(unordered(compilePolicies(reversed).evaluate(at))).toEqual(
          unordered(compilePolicies(published).evaluate(at)),
        );
      }),
      runs,
    );
  });

  it('never changes a denial into an allow when a deny rule is added', () => {
    fc.assert(
      fc.property(policies, policies, context, (published, more, at) => {
        const denying = more.flatMap(({ definition: { rules, ...rest } }, index) =>
          publish(100 + index, {
            ...rest,
            mode: 'enforce',
            rules: rules.map((rule) => ({ ...rule, decision: 'deny' as const })),
          }),
        );
        const before = compilePolicies(published).evaluate(at).decision;
        const after = compilePolicies([...published, ...denying]).evaluate(at).decision;
        if (refusals.includes(before)) expect(refusals).toContain(after);
        if (before === 'deny') expect(after).toBe('deny');
      }),
      runs,
    );
  });

  it('denies everything if a rule denies everything', () => {
    fc.assert(
      fc.property(policies, context, (published, at) => {
        const set = compilePolicies([...published, publish(1000, denyAll)]);
        expect(set.evaluate(at).decision).toBe('deny');
      }),
      runs,
    );
  });

  it('ignores policies in mode monitor; a policy in mode warn can only turn an allow into a warn', () => {
    fc.assert(
      fc.property(policies, context, (published, at) => {
        const enforcing = published.filter(
          ({ definition: { mode } }) => mode !== 'monitor' && mode !== 'warn',
        );
        const before = compilePolicies(enforcing).evaluate(at);
        const after = compilePolicies(published).evaluate(at);
        if (before.decision === 'allow') expect(['allow', 'warn']).toContain(after.decision);
        else expect(after.decision).toBe(before.decision);
        if (before.decision === after.decision) {
          expect(after.reasonCode).toBe(before.reasonCode);
          expect(after.policyHash).toBe(before.policyHash);
        }
      }),
      runs,
    );
  });

  it('makes the same decision for a single policy as the replay of this policy', () => {
    fc.assert(
      fc.property(policies, context, (published, at) => {
        for (const { id, hash, definition } of published) {
          const enforced = publish(id, { ...definition, mode: 'enforce' });
          const { verdict, policy_hash } = replayPolicy(definition, at);
          const outcome = compilePolicies([enforced]).evaluate(at);
          expect(policy_hash).toBe(hash);
          expect(verdict.decision).toBe(outcome.decision);
          expect(verdict.reason_code).toBe(outcome.reasonCode);
          expect(verdict.matched_rules).toEqual(outcome.matchedRules);
        }
      }),
      runs,
    );
  });
});

describe('the rule index', () => {
  /**
   * Creates many rules per tool that differ in values and limits, so that every kind of split
   * occurs.
   */
  function crowded(rules: number): PolicyDefinition {
    return {
      id: 'crowd',
      version: 1,
      rules: Array.from({ length: rules }, (_, index) => ({
        name: `r${index}`,
        decision: index % 3 === 0 ? 'allow' : 'require_approval',
        reason: `x.${index}`,
        when: { all: conditionsOf(index) },
      })),
    };
  }

  function conditionsOf(index: number): PolicyCondition[] {
    const tool: PolicyCondition = { path: 'tool.name', operator: '==', value: `t${index % 5}` };
    const limit = (index * 7) % 50;
    switch (index % 8) {
      case 0:
        return [tool, { path: 'args.amount', operator: '>', value: limit }];
      case 1:
        return [{ path: 'args.amount', operator: '>=', value: String(limit) }, tool];
      case 2:
        return [tool, { path: 'args.amount', operator: '<', value: limit }];
      case 3:
        return [tool, { path: 'args.amount', operator: '<=', value: limit }, inProd];
      case 4:
        return [tool, { path: 'resource.id', operator: '==', value: `c${limit}` }];
      case 5:
        return [{ path: 'resource.id', operator: 'in', value: [`c${limit}`, 'c1', 'c2'] }];
      case 6:
        return [{ path: 'args.amount', operator: '>', value: limit }, inProd];
      default:
        return [tool, inProd, { path: 'args.amount', operator: '!=', value: limit }];
    }
  }
  const inProd: PolicyCondition = { path: 'environment', operator: '==', value: 'prod' };

  it('finds the same rules as a linear scan of all rules', () => {
    const published = [publish(1, crowded(1600)), publish(2, { ...crowded(333), id: 'other' })];
    const set = compilePolicies(published);
    const at = fc.record({
      tool: fc.integer({ min: 0, max: 6 }).map((n) => ({ name: `t${n}` })),
      args: fc.record(
        {
          amount: fc.oneof(
            fc.integer({ min: -2, max: 55 }),
            fc.integer({ min: -2, max: 55 }).map(String),
            fc.constantFrom('x', null, true, 1e308, -1e308, 0.5),
          ),
        },
        { requiredKeys: [] },
      ),
      resource: fc.integer({ min: 0, max: 50 }).map((n) => ({ id: `c${n}` })),
      environment: fc.constantFrom('prod', 'dev'),
    });
    fc.assert(
      fc.property(at, (where) => {
        expect(plain(set.evaluate(where))).toEqual(interpret(published, where));
      }),
      { numRuns: 500 },
    );
  });

  it('stays small if every rule lists many values for each of many paths', () => {
    const names = Array.from({ length: 60 }, (_, index) => `n${index}`);
    const paths = ['tool.name', 'resource.id', 'resource.type', 'user.id', 'user.role'];
    const someNames = (seed: number) => names.filter((_, at) => ((at + 1) * (seed + 3)) % 11 > 3);
    const rules = Array.from({ length: 400 }, (_, index): PolicyRule => {
      const all = paths.map(
        (path, nth): PolicyCondition => ({ path, operator: 'in', value: someNames(index + nth) }),
      );
      return { name: `r${index}`, decision: 'deny', reason: 'x', when: { all } };
    });
    const published = [publish(1, { id: 'p', version: 1, rules })];
    const startedMs = processorMs();
    const set = compilePolicies(published);
    expect(processorMs() - startedMs).toBeLessThan(3000);
    const n9 = { id: 'n9', type: 'n9', role: 'n9', name: 'n9' };
    const at = { tool: n9, resource: n9, user: n9 };
    expect(plain(set.evaluate(at))).toEqual(interpret(published, at));
    expect(set.evaluate(at).matchedRules.length).toBeGreaterThan(10);
  });

  it('stays shallow if every group of rules has a separate path', () => {
    const rules = Array.from({ length: 2000 }, (_, index) => ({
      name: `r${index}`,
      decision: 'allow' as const,
      reason: 'x',
      when: {
        all: [
          {
            path: `args.p${index >> 3}`,
            operator: index % 2 ? ('==' as const) : ('>' as const),
            value: index,
          },
        ],
      },
    }));
    const set = compilePolicies([publish(1, { id: 'p', version: 1, rules })]);
    const { matchedRules } = set.evaluate({ args: { p100: 801, p7: 60 } });
    expect(matchedRules).toEqual(['p/r56', 'p/r58', 'p/r800', 'p/r801']);
  });

  function rule(name: string, operator: PolicyCondition['operator'], value: JsonValue): PolicyRule {
    const when = { all: [{ path: 'args.n', operator, value }] };
    return { name, decision: 'allow', reason: 'x', when };
  }

  it('distinguishes a value at a limit from a value above the limit', () => {
    const steps = [4, 5, 5, 6].flatMap((limit, index) => [
      rule(`over${index}`, '>', limit),
      rule(`from${index}`, '>=', limit),
      rule(`under${index}`, '<', limit),
      rule(`to${index}`, '<=', limit),
    ]);
    const published = [publish(1, { id: 'p', version: 1, rules: steps })];
    const set = compilePolicies(published);
    for (const n of [3, 4, 5, '5', '5e0', 5.5, 6, 7]) {
      expect(plain(set.evaluate({ args: { n } }))).toEqual(interpret(published, { args: { n } }));
    }
  });

  it('finds a rule only once if the list in its condition contains a value twice', () => {
    const rules = Array.from({ length: 9 }, (_, index) => rule(`r${index}`, 'in', [index, index]));
    const set = compilePolicies([publish(1, { id: 'p', version: 1, rules })]);
    expect(set.evaluate({ args: { n: 3 } }).matchedRules).toEqual(['p/r3']);
  });

  it('orders limits that overflow to infinity', () => {
    const rules = [
      ...['1e999', '1e999', '1', '-1e999'].map((value, index) => rule(`up${index}`, '>', value)),
      ...['1e999', '-1e999', '1', '-1e999'].map((value, index) => rule(`down${index}`, '<', value)),
    ];
    const set = compilePolicies([publish(1, { id: 'p', version: 1, rules })]);
    expect(set.evaluate({ args: { n: 5 } }).matchedRules).toEqual(['p/up2', 'p/up3', 'p/down0']);
    expect(set.evaluate({ args: { n: -Number.MAX_VALUE } }).matchedRules).toEqual([
      'p/up3',
      'p/down0',
      'p/down2',
    ]);
  });
});

describe('a policy compiler', () => {
  const allowRule: PolicyRule = {
    name: 'r',
    decision: 'allow',
    reason: 'x.ok',
    when: { all: [{ path: 'tool.name', operator: '==', value: 't' }] },
  };
  const allow: PolicyDefinition = { id: 'a', version: 1, rules: [allowRule] };
  const at: PolicyContext = { tool: { name: 't' } };

  it('refuses a definition that does not match its hash', () => {
    const published = { ...publish(7, allow), definition: { ...allow, version: 2 } };
    expect(() => compilePolicies([published])).toThrow(
      /^policy 7: .* does not match the published hash sha256/,
    );
  });

  it('refuses a set if one policy is invalid, and keeps the previous set', () => {
    const compiler = new PolicyCompiler();
    const before = compiler.compile([publish(1, allow)]);
    const broken: PolicyDefinition = { ...allow, rules: [{ ...allowRule, when: { all: [] } }] };
    expect(() => compiler.compile([publish(1, allow), publish(2, broken)])).toThrow(
      /rules\[0\]\.when\.all/,
    );
    expect(before.evaluate(at).decision).toBe('allow');
    expect(compiler.compile([publish(1, allow)]).evaluate(at).decision).toBe('allow');
  });

  it('does not compile the same policy twice', () => {
    const compiler = new PolicyCompiler();
    const set = compiler.compile([publish(1, allow)]);
    const again = compiler.compile([publish(1, structuredClone(allow)), publish(2, denyAll)]);
    expect(again.evaluate(at).decision).toBe('deny');
    const back = compiler.compile([publish(1, structuredClone(allow))]);
    expect(back.evaluate(at)).toBe(set.evaluate(at));
  });

  it('is not affected by later changes to the definition object', () => {
    const conditions = [{ path: 'tool.name', operator: '==' as const, value: 't' }];
    const rules = [{ ...allowRule, when: { all: conditions } }];
    const set = compilePolicies([publish(1, { ...allow, rules })]);
    conditions.length = 0;
    rules.length = 0;
    expect(set.evaluate(at).decision).toBe('allow');
  });

  it('computes the hash of a set from the hashes of its policies, in any order', () => {
    const [one, two] = [publish(1, allow), publish(2, denyAll)];
    const set = compilePolicies([two, one]);
    expect(set.size).toBe(2);
    expect(set.hash).toBe(policySetHash([one.hash, two.hash]));
    expect(compilePolicies([]).hash).toBe(policySetHash([]));
    expect(compilePolicies([]).evaluate(at).reasonCode).toBe('policy.no_match');
  });
});
