import type { JsonValue } from '../../base/json.ts';
import { compileCondition, refPath } from '../language/condition.ts';
import type { Operator, PolicyCondition } from '../language/definition.ts';
import { segmentsOf } from '../language/path.ts';
import { toNumber } from '../language/relations.ts';
import {
  kindOf,
  type PartialValue,
  type Possibility,
  possibilitiesOf,
  readPartial,
} from './partial-value.ts';

/** Kleene's three-valued logic: `unknown` may be true or false. */
export type Truth = boolean | 'unknown';

export type ReadTruth = (context: PartialValue) => Truth;

export function allOf(truths: readonly Truth[]): Truth {
  if (truths.includes(false)) return false;
  return truths.includes('unknown') ? 'unknown' : true;
}

export function anyOf(truths: readonly Truth[]): Truth {
  if (truths.includes(true)) return true;
  return truths.includes('unknown') ? 'unknown' : false;
}

/**
 * Compiles a condition for partially known contexts: true or false only if every possible value
 * gives that result. Known values are evaluated by the ordinary compiled condition, so that both
 * evaluations give the same result.
 */
export function compileTruth(condition: PolicyCondition, permits: boolean): ReadTruth {
  const { path, operator, value } = condition;
  const ref = refPath(value);
  const { holds } = compileCondition(
    { path: 'left', operator, value: ref === undefined ? value : { $ref: 'right' } },
    permits,
  );
  const leftPath = segmentsOf(path);
  const rightPath = ref === undefined ? undefined : segmentsOf(ref);
  const literal: readonly Possibility[] = [{ value }];
  return (context) => {
    const lefts = possibilitiesOf(readPartial(context, leftPath));
    const rights =
      rightPath === undefined ? literal : possibilitiesOf(readPartial(context, rightPath));
    let found: boolean | undefined;
    for (const left of lefts) {
      for (const right of rights) {
        if (varies(operator, left, right)) return 'unknown';
        const result = holds({ left: sampleOf(left), right: sampleOf(right) } as never);
        if (found !== undefined && found !== result) return 'unknown';
        found = result;
      }
    }
    return found ?? 'unknown';
  };
}

const samples = { number: 0, string: '', array: [], object: {} } as const;

/**
 * One value that represents a whole kind; valid because `varies` found that all values of the kind
 * give the same result.
 */
function sampleOf(possibility: Possibility): JsonValue | undefined {
  return 'open' in possibility ? samples[possibility.open] : possibility.value;
}

function kindIn(possibility: Possibility) {
  return 'open' in possibility ? possibility.open : kindOf(possibility.value);
}

/**
 * True if the operator may hold for some possible values of both sides and not for others.
 * Otherwise the kinds of both sides determine the result.
 */
function varies(operator: Operator, left: Possibility, right: Possibility): boolean {
  if (!('open' in left) && !('open' in right)) return false;
  switch (operator) {
    case '==':
    case '!=':
      return kindIn(left) === kindIn(right);
    case '>':
    case '>=':
    case '<':
    case '<=':
      return mayBeNumber(left) && mayBeNumber(right);
    case 'in':
    case 'not_in':
      return mayBeMember(left, right);
    case 'contains':
      return mayContain(left, right);
    case 'matches':
      return kindIn(left) === 'string';
  }
}

function mayBeNumber(side: Possibility): boolean {
  if ('open' in side) return side.open === 'number' || side.open === 'string';
  return !Number.isNaN(toNumber(side.value, false));
}

function mayBeMember(left: Possibility, right: Possibility): boolean {
  const kind = kindIn(left);
  if (kind === 'absent') return false;
  if ('open' in right) return right.open === 'array';
  const list: readonly JsonValue[] = Array.isArray(right.value) ? right.value : [];
  return list.some((item) => kindOf(item) === kind);
}

function mayContain(left: Possibility, right: Possibility): boolean {
  const kind = kindIn(left);
  if (kind === 'string') return kindIn(right) === 'string';
  return kind === 'array' && kindIn(right) !== 'absent';
}
