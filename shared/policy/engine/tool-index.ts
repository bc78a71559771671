import type { Requirement } from '../language/condition.ts';
import type { Primitive } from '../language/relations.ts';
import { buildLadder } from './rule-ladder.ts';
import {
  type Candidate,
  type CollectRules,
  listRules,
  type PlacedRule,
  removeRequirement,
} from './rule-list.ts';
import { lookUp, splitByValue } from './rule-lookup.ts';

/**
 * The rules of a set, indexed by tool. A changed set reuses the parts of the index that are
 * unaffected. Immutable, so that a set in use never changes.
 */
export class ToolIndex {
  readonly #branches: ReadonlyMap<Primitive | undefined, Branch>;

  /** Without arguments, the index is empty. */
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
    const removedRules = new Set(removed);
    for (const placed of [...removed, ...added]) toolsOf(placed).forEach(file(placed));
    const branches = new Map(this.#branches);
    for (const [tool, filed] of touched) {
      const held = branches.get(tool)?.placed ?? [];
      const placed = [...held, ...filed].filter((one) => !removedRules.has(one));
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

/** The rules for one tool, or (`undefined`) rules that name no tools; indexed on first use. */
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
      return settled === undefined ? candidate : removeRequirement(candidate, settled);
    });
    return buildIndex(candidates, { isFiled: this.#tool !== undefined });
  }
}

/** The requirement that limits a rule to a small set of tools. */
function toolRequirement({ rule }: PlacedRule): Requirement | undefined {
  return rule.requirements.find(
    ({ keys }) => keys?.path === 'tool.name' && keys.values.length <= valuesMax,
  );
}

function toolsOf(placed: PlacedRule): readonly (Primitive | undefined)[] {
  return toolRequirement(placed)?.keys?.values ?? [undefined];
}

/**
 * A rule that accepts more than this number of values at a path is not indexed under these values.
 */
const valuesMax = 64;
/**
 * Maximum number of splits on the way to a rule, so that hostile policies cannot make the index
 * deep.
 */
const splitsMax = 16;

/**
 * Builds an index whose look-up cost hardly grows with the number of rules. Rules that require a
 * certain value at a path are indexed under that value, with the path that separates the most
 * rules. Numeric limits on the same path are sorted. The remaining rules are evaluated one by one.
 * `isFiled` means that the rules are already indexed by tool.
 */
function buildIndex(
  candidates: readonly Candidate[],
  { isFiled }: { readonly isFiled: boolean },
): CollectRules {
  return build(candidates, { valuesLimit: isFiled ? 1 : valuesMax, splitsLeft: splitsMax });
}

interface Allowance {
  /**
   * Maximum number of values under which one rule is indexed at this level. It is 1 on the levels
   * below the first look-up, so that the index never has more than `valuesMax` references to a
   * rule.
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
