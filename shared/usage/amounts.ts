import type { JsonObject, JsonValue } from '../base/json.ts';
import { compilePath } from '../policy/language/path.ts';
import { toNumber } from '../policy/language/relations.ts';
import type { Sums } from '../vocabulary/verdict.ts';

/** No single value counts for more: sums stay numbers whatever an agent writes. */
export const amountMax = Number.MAX_SAFE_INTEGER;

/** The values of one call at these paths. Absent ones are left out, as they add nothing. */
export function amountsIn(args: JsonObject, paths: readonly string[]): Sums {
  const sums: Record<string, number> = {};
  for (const path of paths) {
    const amount = amountOf(compilePath(`args.${path}`)({ args }));
    if (amount > 0) sums[path] = amount;
  }
  return sums;
}

/** Of these paths, those whose value in a call is there and is no plain number: nobody can say what it adds. */
export function unreadableIn(args: JsonObject, paths: readonly string[]): ReadonlySet<string> {
  return new Set(
    paths.filter((path) => {
      const value = compilePath(`args.${path}`)({ args });
      return value !== undefined && Number.isNaN(toNumber(value, true));
    }),
  );
}

const mantissa = /^[^e]*/i;

/**
 * What a value adds to a sum: a number, or decimal text as policies read it; nothing for anything
 * else. A negative one adds nothing: a budget that can be given back by asking for less than
 * nothing is none. Of text with an exponent the greater of its two readings counts: `900e-1` is 900
 * to a reader that stops at the `e`.
 */
export function amountOf(value: JsonValue | undefined): number {
  const number = toNumber(value, false);
  const other =
    typeof value === 'string' && !Number.isNaN(number)
      ? Number(mantissa.exec(value)?.[0] ?? 0)
      : number;
  return Math.min(Math.max(number || 0, other || 0, 0), amountMax);
}
