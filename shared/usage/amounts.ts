import type { JsonObject, JsonValue } from '../base/json.ts';
import { compilePath } from '../policy/language/path.ts';
import { toNumber } from '../policy/language/relations.ts';
import type { Sums } from '../vocabulary/verdict.ts';

/** Maximum that a single value adds, so that sums stay finite. */
export const amountMax = Number.MAX_SAFE_INTEGER;

/** The values of one call at these paths, without absent ones. */
export function amountsIn(args: JsonObject, paths: readonly string[]): Sums {
  const sums: Record<string, number> = {};
  for (const path of paths) {
    const amount = amountOf(compilePath(`args.${path}`)({ args }));
    if (amount > 0) sums[path] = amount;
  }
  return sums;
}

/**
 * The paths whose value in a call is present but not a plain number, so that its amount is unknown.
 */
export function unsummablePaths(args: JsonObject, paths: readonly string[]): ReadonlySet<string> {
  return new Set(
    paths.filter((path) => {
      const value = compilePath(`args.${path}`)({ args });
      return value !== undefined && Number.isNaN(toNumber(value, true));
    }),
  );
}

const mantissa = /^[^e]*/i;

/**
 * The amount that a value adds to a sum: a number, or decimal text; 0 for anything else. A negative
 * value adds nothing, because it would restore the budget. Text with an exponent counts as the
 * greater of two readings, because a parser that stops at the `e` reads `900e-1` as 900.
 */
export function amountOf(value: JsonValue | undefined): number {
  const number = toNumber(value, false);
  const other =
    typeof value === 'string' && !Number.isNaN(number)
      ? Number(mantissa.exec(value)?.[0] ?? 0)
      : number;
  return Math.min(Math.max(number || 0, other || 0, 0), amountMax);
}
