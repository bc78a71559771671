import type { Requirement } from '../language/condition.ts';
import type { Primitive } from '../language/relations.ts';
import { buildLadder } from './rule-ladder.ts';
import {
  type Candidate,
  type CollectRules,
  listRules,
  type PlacedRule,
  settle,
} from './rule-list.ts';
import { lookUp, splitByValue } from './rule-lookup.ts';

/**
 * The rules of a set, filed by the tools that they are for: what a change of the set does not touch
 * stays as it was built. Immutable, so that a set in use is not changed under its users.
 */
export class ToolIndex {
  readonly #branches: ReadonlyMap<Primitive | undefined, Branch>;

  /** Without rules, unless told otherwise. */
  constructor(branches: ReadonlyMap<Primitive | undefined, Branch> = new Map()) {
    this.#branches = branches;
  }

  change(removed: readonly PlacedRule[], added: readonly PlacedRule[]): ToolIndex {
    const touched = new Map<Primitive | undefined, PlacedRule[]>();
    const file = (placed: PlacedRule) => (tool: Primitive | undefined) => {
      const filed = touched.get(tool) ?? [];
      touched.set(tool, filed);
      return filed.push(placed);
    };
    const gone = new Set(removed);
    for (const placed of [...removed, ...added]) toolsOf(placed).forEach(file(placed));
    const branches = new Map(this.#branches);
    for (const [tool, filed] of touched) {
      const held = branches.get(tool)?.placed ?? [];
      const placed = [...held, ...filed].filter((one) => !gone.has(one));
      if (placed.length === 0) branches.delete(tool);
      else branches.set(tool, new Branch(tool, placed));
    }
    return new ToolIndex(branches);
  }

  readonly collect: CollectRules = (context, found) => {
    const tool = context.tool?.name as Primitive | undefined;
    if (tool !== undefined) this.#branches.get(tool)?.collect(context, found);
    this.#branches.get(undefined)?.collect(context, found);
  };
}

/** The rules for one tool, or (`undefined`) those that do not say which; indexed when first needed. */
class Branch {
  readonly #tool: Primitive | undefined;
  readonly placed: readonly PlacedRule[];
  #collect: CollectRules | undefined;

  constructor(tool: Primitive | undefined, placed: readonly PlacedRule[]) {
    this.#tool = tool;
    this.placed = placed;
  }

  readonly collect: CollectRules = (context, found) => {
    this.#collect ??= this.#build();
    this.#collect(context, found);
  };

  #build(): CollectRules {
    const candidates = this.placed.map((placed) => {
      const candidate = { placed, open: placed.rule.requirements };
      const settled = this.#tool === undefined ? undefined : toolRequirement(placed);
      return settled === undefined ? candidate : settle(candidate, settled);
    });
    return buildIndex(candidates, { isFiled: this.#tool !== undefined });
  }
}

/** What says which tools a rule is for, where they are few. */
function toolRequirement({ rule }: PlacedRule): Requirement | undefined {
  return rule.requirements.find(
    ({ keys }) => keys?.path === 'tool.name' && keys.values.length <= valuesMax,
  );
}

function toolsOf(placed: PlacedRule): readonly (Primitive | undefined)[] {
  return toolRequirement(placed)?.keys?.values ?? [undefined];
}

/** A rule that accepts more values than this at a path is not filed under them. */
const valuesMax = 64;
/** Splits on the way to any rule: policies written to be awkward must not make the index deep. */
const splitsMax = 16;

/**
 * Finds the rules that match a context at a cost that hardly grows with the number of rules.
 * Rules that need a certain value at some path are filed under that value, whatever tells most of
 * them apart. Among what is left, numeric limits on the same path are put in order. The rest are
 * tried one by one. `isFiled`: the rules have been filed under values once already.
 */
function buildIndex(
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
