import type { JsonValue } from '../../base/json.ts';
import type { PolicyContext } from './context.ts';
import { summedPath } from './usage-path.ts';

/** Reads the value at a path of a context; undefined if there is none. */
export type ReadPath = (context: PolicyContext) => JsonValue | undefined;

/** The segments of a path, in order. */
export function segmentsOf(path: string): readonly string[] {
  const summed = summedPath(path);
  // The path of a sum is a single segment, so that `order` and `order.total` can both be summed.
  return summed === undefined ? path.split('.') : ['usage', 'sum_24h', summed];
}

/**
 * Compiles a dotted path to a reader. The reader returns own properties only, never inherited ones
 * such as `constructor` or `__proto__`. For arrays, `0` and `length` are own properties.
 */
export function compilePath(path: string): ReadPath {
  const [first = '', second, ...rest] = segmentsOf(path);
  if (second === undefined) return (context) => own(context, first);
  if (rest.length === 0) return (context) => own(own(context, first), second);
  return (context) => {
    let value = own(own(context, first), second);
    for (const segment of rest) value = own(value, segment);
    return value;
  };
}

function own(value: JsonValue | undefined, segment: string): JsonValue | undefined {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, segment)
    ? (value as { readonly [name: string]: JsonValue | undefined })[segment]
    : undefined;
}
