import type { JsonValue } from '../../base/json.ts';
import type { Kind, PartialValue } from './partial-value.ts';

/** A path at which the value is unknown, and the kind of that value. */
export interface Hole {
  readonly path: readonly (string | number)[];
  readonly kind: Kind;
}

interface Filled {
  readonly value: JsonValue | undefined;
  /** Paths that hold a placeholder. */
  readonly holes: readonly Hole[];
  /** Paths that are omitted although they may have had a value. */
  readonly omitted: readonly Hole['path'][];
}

const standIns: Readonly<Record<Kind, JsonValue | undefined>> = {
  absent: undefined,
  null: null,
  boolean: false,
  number: 0,
  string: '',
  array: [],
  object: {},
};

/** Builds a possible value: the known parts, and placeholders where a value is required. */
export function fillIn(partial: PartialValue, path: Hole['path'] = []): Filled {
  if ('known' in partial) return { value: partial.known, holes: [], omitted: [] };
  if ('members' in partial) return fillMembers(partial, path);
  if ('first' in partial) {
    const { value, holes, omitted } = fillIn(partial.first, [...path, 0]);
    return { value: value === undefined ? [] : [value], holes, omitted };
  }
  const [kind = 'absent'] = partial.kinds;
  if (partial.kinds.includes('absent')) return { value: undefined, holes: [], omitted: [path] };
  return { value: standIns[kind], holes: [{ path, kind }], omitted: [] };
}

function fillMembers(
  { members, others }: Extract<PartialValue, { readonly members: unknown }>,
  path: Hole['path'],
): Filled {
  const filled = [...members].map(([name, member]) => ({
    name,
    ...fillIn(member, [...path, name]),
  }));
  const isOpen = !('known' in others);
  return {
    value: Object.fromEntries(
      filled.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
    ),
    holes: filled.flatMap(({ holes }) => holes),
    omitted: [...filled.flatMap(({ omitted }) => omitted), ...(isOpen ? [[...path, '…']] : [])],
  };
}
