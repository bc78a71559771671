import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePolicies } from '../../../../shared/policy/engine/compile.ts';
import type { PolicyContext } from '../../../../shared/policy/language/context.ts';
import type { PolicyCondition, PolicyRule } from '../../../../shared/policy/language/definition.ts';
import { admits, type PartialValue } from '../../../../shared/policy/uncertain/partial-value.ts';
import { compileUncertain } from '../../../../shared/policy/uncertain/uncertain-policies.ts';
import { completionOf, partialContext } from '../../../support/policy/partial-arbitraries.ts';
import { context, policies, publish } from '../../../support/policy/policy-arbitraries.ts';

const completions = partialContext.chain((partial) =>
  fc.tuple(fc.constant(partial), fc.array(completionOf(partial), { minLength: 4, maxLength: 8 })),
);

describe('the verdict on a partially known context', () => {
  it('is known only if every completion of the context gives this verdict', () => {
    let known = 0;
    let unknown = 0;
    fc.assert(
      fc.property(policies, completions, (published, [partial, full]) => {
        const { decision, reasonCode, matchedRules } = compileUncertain(published).judge(partial);
        if (decision === 'unknown') unknown += 1;
        else known += 1;
        const ordinary = compilePolicies(published);
        for (const one of full) {
          expect(admits(partial, one)).toBe(true);
          const outcome = ordinary.evaluate(one as PolicyContext);
          if (decision !== 'unknown') expect(outcome.decision).toBe(decision);
          if (reasonCode !== undefined) expect(outcome.reasonCode).toBe(reasonCode);
          if (decision !== 'unknown' && outcome.decision !== 'warn') {
            expect(outcome.matchedRules).toEqual(expect.arrayContaining([...matchedRules]));
          }
        }
      }),
      { numRuns: 1000 },
    );
    // Without both kinds of results, the property would be trivial.
    expect(known).toBeGreaterThan(100);
    expect(unknown).toBeGreaterThan(100);
  });

  it('equals the ordinary verdict if the context is completely known', () => {
    fc.assert(
      fc.property(policies, context, (published, known) => {
        const judged = compileUncertain(published).judge({ known });
        const outcome = compilePolicies(published).evaluate(known);
        expect(judged).toEqual({
          decision: outcome.decision,
          reasonCode: outcome.reasonCode,
          policyHash: outcome.policyHash,
          matchedRules: outcome.matchedRules,
          unsureRules: [],
        });
      }),
      { numRuns: 600 },
    );
  });
});

function rule(decision: PolicyRule['decision'], ...all: readonly PolicyCondition[]): PolicyRule {
  return { name: decision, decision, reason: `test.${decision}`, when: { all } };
}

const over = (limit: number): PolicyCondition => ({
  path: 'args.amount',
  operator: '>',
  value: limit,
});
const pays: PolicyCondition = { path: 'tool.name', operator: '==', value: 'pay' };

function paying(args: PartialValue): PartialValue {
  const members = new Map<string, PartialValue>([
    ['tool', { known: { name: 'pay' } }],
    ['agent', { known: { id: '1' } }],
    ['args', args],
  ]);
  return { members, others: { known: undefined } };
}

const amount = (value: PartialValue): PartialValue =>
  paying({ members: new Map([['amount', value]]), others: { known: undefined } });

function judge(rules: readonly PolicyRule[], partial: PartialValue) {
  const definition = { id: 'p', version: 1, rules };
  return compileUncertain([publish(1, definition)]).judge(partial);
}

describe('an unknown value', () => {
  it('makes a decision unknown if some value would make the decision stricter', () => {
    const rules = [rule('allow', pays), rule('deny', over(100))];
    const outcome = judge(rules, amount({ kinds: ['number'] }));
    expect(outcome).toMatchObject({ decision: 'unknown', unsureRules: ['p/deny'] });
    expect(outcome.reasonCode).toBeUndefined();
  });

  it('does not change the denial by a rule that does not depend on the value', () => {
    const rules = [rule('deny', pays), rule('require_approval', over(100))];
    expect(judge(rules, amount({ kinds: ['number'] }))).toMatchObject({
      decision: 'deny',
      reasonCode: 'test.deny',
    });
  });

  it('makes only the reason unknown if a rule that depends on the value could give the same decision', () => {
    const large = { ...rule('deny', over(100)), name: 'large', reason: 'test.large' };
    const outcome = judge([large, rule('deny', pays)], amount({ kinds: ['number'] }));
    expect(outcome).toMatchObject({ decision: 'deny', matchedRules: ['p/deny'] });
    expect(outcome.reasonCode).toBeUndefined();
  });

  it.each([
    ['that is absent', { known: undefined }, 'allow'],
    ['that is neither number nor text', { kinds: ['boolean', 'array'] }, 'allow'],
    ['that may be text', { kinds: ['string'] }, 'unknown'],
  ] as const)(
    'leads to the expected decision because of its known type: an amount %s',
    (_what, value, decision) => {
      const rules = [rule('allow', pays), rule('deny', over(100))];
      expect(judge(rules, amount(value)).decision).toBe(decision);
    },
  );

  it('makes the decision unknown if the value is the tool name and the policy applies to one tool only', () => {
    const other: PolicyCondition = { path: 'tool.name', operator: '!=', value: 'x' };
    const applies_to = { tools: ['pay'] };
    const scoped = { id: 'p', version: 1, applies_to, rules: [rule('allow', other)] };
    const unnamed: PartialValue = {
      members: new Map<string, PartialValue>([
        [
          'tool',
          { members: new Map([['name', { kinds: ['string'] }]]), others: { known: undefined } },
        ],
      ]),
      others: { known: undefined },
    };
    expect(compileUncertain([publish(1, scoped)]).judge(unnamed).decision).toBe('unknown');
  });
});
