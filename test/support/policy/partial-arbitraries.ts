import fc from 'fast-check';
import type { JsonValue } from '../../../shared/base/json.ts';
import {
  absent,
  anything,
  type Kind,
  kindOf,
  type PartialValue,
} from '../../../shared/policy/uncertain/partial-value.ts';
import { anyValue } from './policy-arbitraries.ts';

/** Partially known contexts over the vocabulary of `policy-arbitraries`. */

const kinds: readonly Kind[] = ['absent', 'null', 'boolean', 'number', 'string', 'array', 'object'];
const names = ['amount', 'to', 'limit', 'a', 'b', 'x', 'constructor'] as const;

const leaf: fc.Arbitrary<PartialValue> = fc.oneof(
  { weight: 4, arbitrary: anyValue.map((known): PartialValue => ({ known })) },
  { weight: 1, arbitrary: fc.constant(absent) },
  { weight: 1, arbitrary: fc.constant(anything) },
  {
    weight: 4,
    arbitrary: fc
      .subarray([...kinds], { minLength: 1, maxLength: 2 })
      .map((some): PartialValue => ({ kinds: some })),
  },
);

const others = fc.constantFrom(absent, anything);

function objectOver(values: fc.Arbitrary<PartialValue>): fc.Arbitrary<PartialValue> {
  return fc
    .tuple(fc.dictionary(fc.constantFrom(...names), values, { maxKeys: 4 }), others)
    .map(([members, rest]) => ({ members: new Map(Object.entries(members)), others: rest }));
}

export const nested = fc.oneof(
  { weight: 4, arbitrary: leaf },
  { weight: 1, arbitrary: objectOver(leaf) },
  { weight: 1, arbitrary: leaf.filter(isThere).map((first): PartialValue => ({ first })) },
);

function isThere(partial: PartialValue): boolean {
  return 'known' in partial
    ? partial.known !== undefined
    : !('kinds' in partial && partial.kinds.includes('absent'));
}

function textOf(...texts: readonly string[]): fc.Arbitrary<PartialValue> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...texts).map((known): PartialValue => ({ known })) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<PartialValue>(anything, { kinds: ['string'] }, absent),
    },
  );
}

function object(members: Readonly<Record<string, fc.Arbitrary<PartialValue>>>) {
  return fc
    .record(members)
    .map((some): PartialValue => ({ members: new Map(Object.entries(some)), others: absent }));
}

export const partialContext: fc.Arbitrary<PartialValue> = object({
  tool: object({ name: textOf('pay.refund', 'pay.charge', 'mail.send', 'db.read') }),
  agent: object({ id: textOf('1', '2', '3') }),
  user: object({ role: textOf('admin', 'dev') }),
  args: fc.oneof({ weight: 5, arbitrary: objectOver(nested) }, { weight: 1, arbitrary: leaf }),
  resource: object({ customer_id: leaf }),
  environment: textOf('prod', 'dev'),
});

/** Generates values that the partial value permits. Undefined means that the value is absent. */
export function completionOf(partial: PartialValue): fc.Arbitrary<JsonValue | undefined> {
  if ('known' in partial) return fc.constant(partial.known);
  if ('kinds' in partial) {
    const { kinds: some } = partial;
    return fc.oneof(...some.map(valueOfKind));
  }
  if ('first' in partial) {
    return fc
      .tuple(completionOf(partial.first), fc.array(anyValue, { maxLength: 3 }))
      .map(([first, rest]) => (first === undefined ? [] : [first, ...rest]));
  }
  const given = [...partial.members].map(([name, value]) =>
    completionOf(value).map((full) => [name, full] as const),
  );
  const rest = names
    .filter((name) => !partial.members.has(name))
    .map((name) => completionOf(partial.others).map((full) => [name, full] as const));
  return fc
    .tuple(...given, ...rest)
    .map((members) => Object.fromEntries(members.filter(([, value]) => value !== undefined)));
}

function valueOfKind(kind: Kind): fc.Arbitrary<JsonValue | undefined> {
  if (kind === 'absent') return fc.constant(undefined);
  return anyValue.filter((value) => kindOf(value) === kind);
}
