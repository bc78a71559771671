import { buildLadder } from './rule-ladder.ts';
import { type Candidate, type CollectRules, listRules } from './rule-list.ts';
import { lookUp, splitByValue } from './rule-lookup.ts';

/** A rule that accepts more values than this at a path is not filed under them. */
export const valuesMax = 64;
/** Splits on the way to any rule: policies written to be awkward must not make the index deep. */
const splitsMax = 16;

/**
 * Finds the rules that match a context at a cost that hardly grows with the number of rules.
 * Rules that need a certain value at some path are filed under that value, whatever tells most of
 * them apart. Among what is left, numeric limits on the same path are put in order. The rest are
 * tried one by one. `isFiled`: the rules have been filed under values once already.
 */
export function buildIndex(
  candidates: readonly Candidate[],
  { isFiled }: { readonly isFiled: boolean },
): CollectRules {
  return build(candidates, { valuesLimit: isFiled ? 1 : valuesMax, splitsLeft: splitsMax });
}

interface Allowance {
  /**
   * 1 below the first look-up: from there on a rule is filed once, so that the index never holds
   * more than `valuesMax` references to it, however lists of values are combined.
   */
  readonly valuesLimit: number;
  readonly splitsLeft: number;
}

function build(
  candidates: readonly Candidate[],
  { valuesLimit, splitsLeft }: Allowance,
): CollectRules {
  const split = splitsLeft > 0 ? splitByValue(candidates, valuesLimit) : undefined;
  if (split === undefined) return buildLadders(candidates, splitsLeft);
  const below = splitsLeft - 1;
  const byValue = new Map(
    [...split.byValue].map(
      ([value, filed]) => [value, build(filed, { valuesLimit: 1, splitsLeft: below })] as const,
    ),
  );
  const rest = build(split.rest, { valuesLimit, splitsLeft: below });
  return lookUp(split.path, byValue, split.rest.length === 0 ? undefined : rest);
}

function buildLadders(candidates: readonly Candidate[], splitsLeft: number): CollectRules {
  const ladder = splitsLeft > 0 ? buildLadder(candidates) : undefined;
  if (ladder === undefined) return listRules(candidates);
  if (ladder.rest.length === 0) return ladder.collect;
  const rest = buildLadders(ladder.rest, splitsLeft - 1);
  return (context, found) => {
    ladder.collect(context, found);
    rest(context, found);
  };
}
