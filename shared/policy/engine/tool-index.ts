import type { Requirement } from '../language/condition.ts';
import type { Primitive } from '../language/relations.ts';
import { buildIndex, valuesMax } from './rule-index.ts';
import { type CollectRules, type PlacedRule, settle } from './rule-list.ts';

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
