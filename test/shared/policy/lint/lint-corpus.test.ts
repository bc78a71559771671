import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../../shared/base/json.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
  RuleDecision,
} from '../../../../shared/policy/language/definition.ts';
import { parsePolicy } from '../../../../shared/policy/language/validate.ts';
import { clausesOf } from '../../../../shared/policy/lint/clause.ts';
import { lintPolicies } from '../../../../shared/policy/lint/lint.ts';
import { isImpossible } from '../../../../shared/policy/lint/reasoning.ts';
import { boundaryContexts } from '../../../support/policy/boundary-contexts.ts';
import { publish } from '../../../support/policy/policy-arbitraries.ts';
import { interpret } from '../../../support/policy/policy-interpreter.ts';
import { pairs } from './lint-corpus.ts';

const policyOf = (...rules: readonly PolicyRule[]): PolicyDefinition =>
  parsePolicy({ id: 'p', version: 1, rules });

function ruleOf(decision: RuleDecision, all: readonly PolicyCondition[]): PolicyRule {
  return { name: decision, decision, reason: `x.${decision}`, when: { all } };
}

const value = fc.constantFrom<JsonValue>(
  0,
  1,
  5,
  5.5,
  10,
  -1,
  '5',
  '10',
  '1e1',
  '1e3x',
  '',
  'a',
  'ab',
  true,
  null,
);
const path = fc.constantFrom('args.a', 'args.a', 'args.b');
const ordered = fc.constantFrom('<', '<=', '>', '>=');
/** Conditions that often conflict: two paths with similar values. */
const condition = fc
  .oneof(
    fc.tuple(path, ordered, value),
    fc.tuple(path, ordered, value),
    fc.tuple(path, fc.constantFrom('==', '!=', 'contains'), value),
    fc.tuple(path, fc.constantFrom('in', 'not_in'), fc.array(value, { maxLength: 3 })),
    fc.tuple(path, fc.constant('matches'), fc.constantFrom('^5', '^[a-c]+$', '^1')),
    fc.tuple(
      path,
      fc.oneof(ordered, fc.constantFrom('==', '!=', 'in', 'not_in')),
      fc.constantFrom({ $ref: 'args.a' }, { $ref: 'args.b' }),
    ),
  )
  .map(([at, operator, given]) => ({ path: at, operator, value: given }) as PolicyCondition);
const fewConditions = fc.array(condition, { minLength: 1, maxLength: 2 });

/** Returns the rules that match according to the reference interpreter. */
function matches(definition: PolicyDefinition, context: JsonObject): readonly string[] {
  return interpret([publish(1, definition)], context).matched;
}

describe('the relation of two rules according to lint', () => {
  it('agrees with an evaluation of the rules on every boundary value', () => {
    const claims = { meet: 0, apart: 0 };
    fc.assert(
      fc.property(fewConditions, fewConditions, (allowed, denied) => {
        const policy = policyOf(ruleOf('allow', allowed), ruleOf('deny', denied));
        const found = lintPolicies([policy]).find(({ kind }) => kind === 'contradiction');
        if (found) {
          claims.meet += 1;
          expect(matches(policy, found.example ?? {})).toEqual(['p/allow', 'p/deny']);
          return;
        }
        const [one = [], other = []] = policy.rules.flatMap((rule) => clausesOf(policy, rule));
        if (!isImpossible([...one, ...other])) return;
        claims.apart += 1;
        const both = boundaryContexts(policy).find((at) => matches(policy, at).length === 2);
        expect(both).toBeUndefined();
      }),
      { numRuns: 400 },
    );
    expect(claims.meet).toBeGreaterThan(40);
    expect(claims.apart).toBeGreaterThan(40);
  });

  it('does not classify a rule as never matching if some context matches the rule', () => {
    fc.assert(
      fc.property(
        fewConditions,
        fc.constantFrom<RuleDecision>('allow', 'deny'),
        (all, decision) => {
          const policy = policyOf(ruleOf(decision, all));
          if (!lintPolicies([policy]).some(({ kind }) => kind === 'never_matches')) return;
          const hit = boundaryContexts(policy).find((at) => matches(policy, at).length > 0);
          expect(hit).toBeUndefined();
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('the corpus of rule pairs', () => {
  it('has the required size, and contains each pair once', () => {
    expect(pairs.length).toBeGreaterThanOrEqual(60);
    expect(new Set(pairs.map(({ name }) => name)).size).toBe(pairs.length);
  });

  it.each(pairs)('states correctly whether lint reports a contradiction: $name', (pair) => {
    const policy = policyOf(pair.one, pair.other);
    const found = lintPolicies([policy]).filter(({ kind }) => kind === 'contradiction');
    expect(found.length).toBe(pair.relation === 'meet' ? 1 : 0);
    for (const { example = {} } of found) {
      expect(matches(policy, example)).toEqual(['p/allow', 'p/deny']);
    }
  });

  it.each(pairs)('states correctly whether lint proves the two rules disjoint: $name', (pair) => {
    const [one, other] = [pair.one, pair.other].map((rule) => clausesOf(policyOf(rule), rule));
    const apart = one?.every((clause) =>
      other?.every((against) => isImpossible([...clause, ...against])),
    );
    expect(apart).toBe(pair.relation === 'apart');
  });

  it.each(pairs)(
    'agrees with an evaluation of the rules on every boundary value: $name',
    ({ one, other, relation }) => {
      const policy = policyOf(one, other);
      const both = boundaryContexts(policy).some((at) => matches(policy, at).length === 2);
      if (relation === 'open') expect(both).toBe(false);
      else expect(both).toBe(relation === 'meet');
    },
  );
});
