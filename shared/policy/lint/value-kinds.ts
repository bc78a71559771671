import type { JsonValue } from '../../base/json.ts';
import { refPath } from '../language/condition.ts';
import { fieldAt } from '../language/context-fields.ts';
import type { PolicyCondition } from '../language/definition.ts';
import { isPrimitive, toNumber } from '../language/relations.ts';

/**
 * The kinds of value at a path, as bits, because lint intersects sets of them for every pair of
 * rules.
 */
export const kinds = {
  missing: 1,
  nothing: 2,
  truth: 4,
  number: 8,
  numericText: 16,
  otherText: 32,
  list: 64,
  object: 128,
} as const;

export const anyKind = 255;
export const numeric = kinds.number | kinds.numericText;
const text = kinds.numericText | kinds.otherText;
const present = anyKind & ~kinds.missing;

/**
 * The kinds of value that can make a condition true; a single value of such a kind may still make
 * it false.
 */
export function kindsFor(condition: PolicyCondition, permits: boolean): number {
  const { operator, value } = condition;
  const isRef = refPath(value) !== undefined;
  switch (operator) {
    case '==':
    case 'in':
      return present;
    case '!=':
    case 'not_in':
      return isRef ? (permits ? present : anyKind) : kindsOfDifference(condition, permits);
    case '>':
    case '>=':
    case '<':
    case '<=':
      return numeric;
    case 'contains':
      return isRef || typeof value === 'string' ? text | kinds.list : kinds.list;
    case 'matches':
      return text;
  }
}

/**
 * The kinds of value that can satisfy `!=` or `not_in`. A rule that permits requires comparable
 * values. A rule that refuses also matches values that it cannot compare.
 */
function kindsOfDifference({ operator, value }: PolicyCondition, permits: boolean): number {
  const literals: readonly JsonValue[] =
    operator === 'not_in' && Array.isArray(value) ? value : [value];
  let able: number = permits ? present : anyKind;
  if (literals.some(isPrimitive)) able &= permits ? ~(kinds.object | kinds.list) : ~kinds.object;
  if (permits && !literals.every(isPrimitive)) able &= kinds.object | kinds.list;
  return able;
}

/** The kinds of value that a path of the context can have. */
export function kindsAt(path: string): number {
  const field = fieldAt(path);
  switch (field?.kind) {
    case 'text':
      return field.always ? text : text | kinds.missing;
    case 'object':
      return kinds.object | kinds.missing;
    case 'anything':
    case undefined:
      return anyKind;
  }
}

export function kindOf(value: JsonValue | undefined): number {
  if (value === undefined) return kinds.missing;
  if (value === null) return kinds.nothing;
  if (Array.isArray(value)) return kinds.list;
  switch (typeof value) {
    case 'boolean':
      return kinds.truth;
    case 'number':
      return kinds.number;
    case 'string':
      return Number.isNaN(toNumber(value, false)) ? kinds.otherText : kinds.numericText;
    default:
      return kinds.object;
  }
}
