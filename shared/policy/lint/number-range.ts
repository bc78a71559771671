import type { ConditionBound } from '../language/condition.ts';

/** The numbers that satisfy a set of ordered conditions. */
export interface NumberRange {
  readonly low: number;
  readonly lowInclusive: boolean;
  readonly high: number;
  readonly highInclusive: boolean;
}

export const everyNumber: NumberRange = {
  low: -Infinity,
  lowInclusive: true,
  high: Infinity,
  highInclusive: true,
};

export function rangeOf(bounds: Iterable<ConditionBound>): NumberRange {
  let range = everyNumber;
  for (const bound of bounds) range = narrow(range, bound);
  return range;
}

function narrow(range: NumberRange, { operator, limit }: ConditionBound): NumberRange {
  const inclusive = operator === '>=' || operator === '<=';
  if (operator === '>' || operator === '>=') {
    if (limit < range.low || (limit === range.low && inclusive)) return range;
    return { ...range, low: limit, lowInclusive: inclusive };
  }
  if (limit > range.high || (limit === range.high && inclusive)) return range;
  return { ...range, high: limit, highInclusive: inclusive };
}

export function isEmpty({ low, lowInclusive, high, highInclusive }: NumberRange): boolean {
  return low > high || (low === high && !(lowInclusive && highInclusive));
}

/** True if every number of the range satisfies the bound. */
export function isWithin(range: NumberRange, bound: ConditionBound): boolean {
  return narrow(range, bound) === range;
}
