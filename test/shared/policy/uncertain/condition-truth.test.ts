import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../../shared/base/json.ts';
import { compileCondition } from '../../../../shared/policy/language/condition.ts';
import type { PolicyContext } from '../../../../shared/policy/language/context.ts';
import { operators } from '../../../../shared/policy/language/definition.ts';
import { compileTruth } from '../../../../shared/policy/uncertain/condition-truth.ts';
import type { PartialValue } from '../../../../shared/policy/uncertain/partial-value.ts';
import { completionOf, nested } from '../../../support/policy/partial-arbitraries.ts';
import { anyValue } from '../../../support/policy/policy-arbitraries.ts';

const literal = anyValue.filter((value) => JSON.stringify(value)[0] !== '{');
const pattern = fc.constantFrom<JsonValue>('^1', 'a|b', '.');
const sides = fc.tuple(nested, nested).map(
  ([left, right]): PartialValue => ({
    members: new Map([
      ['left', left],
      ['right', right],
    ]),
    others: { known: undefined },
  }),
);

describe.each([...operators])(
  'a condition with the operator %s on a partially known value',
  (operator) => {
    it('has a known result only if every completion of the value gives this result', () => {
      const isPattern = operator === 'matches';
      const value = isPattern
        ? pattern
        : fc.oneof(literal, fc.constant<JsonValue>({ $ref: 'right' }));
      const given = sides.chain((partial) =>
        fc.tuple(fc.constant(partial), fc.array(completionOf(partial), { minLength: 5 })),
      );
      let known = 0;
      fc.assert(
        fc.property(value, fc.boolean(), given, (one, permits, [partial, full]) => {
          const condition = { path: 'left', operator, value: one };
          const truth = compileTruth(condition, permits)(partial);
          if (truth === 'unknown') return;
          known += 1;
          const { holds } = compileCondition(condition, permits);
          for (const context of full) expect(holds(context as PolicyContext)).toBe(truth);
        }),
        { numRuns: 1000 },
      );
      expect(known).toBeGreaterThan(100);
    });
  },
);
