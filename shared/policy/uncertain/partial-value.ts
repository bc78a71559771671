import { isJsonObject, type JsonValue } from '../../base/json.ts';

const kinds = ['absent', 'null', 'boolean', 'number', 'string', 'array', 'object'] as const;
export type Kind = (typeof kinds)[number];

/** The known part of a value that may have been erased, or was never recorded. */
export type PartialValue =
  /** The complete value; undefined: the value is absent. */
  | { readonly known: JsonValue | undefined }
  /** A value of one of these kinds. */
  | { readonly kinds: readonly Kind[] }
  /** An object; `others` describes every member that is not named. */
  | {
      readonly members: ReadonlyMap<string, PartialValue>;
      readonly others: PartialValue;
    }
  /** A list that begins with this element. */
  | { readonly first: PartialValue };

export const absent: PartialValue = { known: undefined };
export const anything: PartialValue = { kinds };

/** One possible value: exactly this value, or any value of an infinite kind. */
export type Possibility =
  | { readonly value: JsonValue | undefined }
  | { readonly open: 'number' | 'string' | 'array' | 'object' };

export function kindOf(value: JsonValue | undefined): Kind {
  if (value === undefined) return 'absent';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value as 'boolean' | 'number' | 'string' | 'object';
}

/** All possible values of a partial value. */
export function possibilitiesOf(partial: PartialValue): readonly Possibility[] {
  if ('known' in partial) return [{ value: partial.known }];
  if ('members' in partial) return [{ open: 'object' }];
  if ('first' in partial) return [{ open: 'array' }];
  return partial.kinds.flatMap(possibilitiesOfKind);
}

function possibilitiesOfKind(kind: Kind): readonly Possibility[] {
  switch (kind) {
    case 'absent':
      return [{ value: undefined }];
    case 'null':
      return [{ value: null }];
    case 'boolean':
      return [{ value: true }, { value: false }];
    case 'number':
    case 'string':
    case 'array':
    case 'object':
      return [{ open: kind }];
  }
}

/** The known part of the value at a dotted path; `segments` come from `segmentsOf`. */
export function readPartial(root: PartialValue, segments: readonly string[]): PartialValue {
  let value = root;
  for (const segment of segments) value = memberOf(value, segment);
  return value;
}

function memberOf(partial: PartialValue, name: string): PartialValue {
  if ('known' in partial) return { known: ownMember(partial.known, name) };
  if ('members' in partial) return partial.members.get(name) ?? partial.others;
  if ('first' in partial) return elementOf(partial.first, name);
  return partial.kinds.some((kind) => kind === 'array' || kind === 'object') ? anything : absent;
}

function elementOf(first: PartialValue, name: string): PartialValue {
  if (name === '0') return first;
  if (name === 'length') return { kinds: ['number'] };
  return /^[1-9]\d*$/.test(name) ? anything : absent;
}

function ownMember(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as { readonly [member: string]: JsonValue | undefined })[name];
}

/** True if the partial value can be this value. */
export function admits(partial: PartialValue, value: JsonValue | undefined): boolean {
  if ('known' in partial) return JSON.stringify(partial.known) === JSON.stringify(value);
  if ('kinds' in partial) return partial.kinds.includes(kindOf(value));
  if ('first' in partial) return Array.isArray(value) && admits(partial.first, value[0]);
  if (!isJsonObject(value)) return false;
  const names = new Set([...partial.members.keys(), ...Object.keys(value)]);
  return [...names].every((name) => admits(memberOf(partial, name), ownMember(value, name)));
}
