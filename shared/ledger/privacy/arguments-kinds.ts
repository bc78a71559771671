import { isJsonObject, type JsonValue } from '../../base/json.ts';
import {
  absent,
  anything,
  type Kind,
  type PartialValue,
} from '../../policy/uncertain/partial-value.ts';
import { shapeLimits } from './arguments.ts';

const leafKinds: readonly string[] = ['boolean', 'number', 'string', 'array', 'object'];

/** Reconstructs from the recorded shape which arguments were present, and of what kind. */
export function partialArguments(
  shape: JsonValue | undefined,
  namesMax: number = shapeLimits.names,
): PartialValue {
  if (!isJsonObject(shape)) return anything;
  return fromShape(shape, mayBeCut(shape, namesMax));
}

/**
 * True if names may have been omitted: the limit was reached, or a name was altered, because an
 * altered name may represent several names.
 */
function mayBeCut(shape: JsonValue, namesMax: number): boolean {
  const names = namesIn(shape);
  return names.length >= namesMax || names.some(isAltered);
}

/**
 * Converts a recorded shape. `isCut` means that names were omitted somewhere, so a missing name may
 * have been present.
 */
function fromShape(shape: JsonValue, isCut: boolean): PartialValue {
  if (typeof shape === 'string') return fromWord(shape);
  if (isJsonObject(shape)) return fromMembers(shape, isCut);
  if (!Array.isArray(shape)) return anything;
  const [first]: readonly JsonValue[] = shape;
  return first === undefined ? { known: [] } : { first: fromShape(first, isCut) };
}

function fromWord(word: string): PartialValue {
  if (word === 'null') return { known: null };
  return leafKinds.includes(word) ? { kinds: [word as Kind] } : anything;
}

function fromMembers(shape: { readonly [name: string]: JsonValue | undefined }, isCut: boolean) {
  const entries = Object.entries(shape);
  const exact = entries.filter(([name]) => !isAltered(name));
  const isWhole = !isCut && entries.length < shapeLimits.members && exact.length === entries.length;
  const members = new Map(
    exact.map(([name, member]) => [name, fromShape(member ?? null, isCut)] as const),
  );
  return { members, others: isWhole ? absent : anything };
}

/** True if a recorded name may differ from the original name. */
function isAltered(name: string): boolean {
  return (
    name.length >= shapeLimits.nameCharacters || name.includes('\u{FFFD}') || name === '(__proto__)'
  );
}

function namesIn(shape: JsonValue | undefined): readonly string[] {
  if (typeof shape !== 'object' || shape === null) return [];
  const own = Array.isArray(shape) ? [] : Object.keys(shape);
  return [...own, ...Object.values(shape).flatMap(namesIn)];
}
