import type { PolicyContext } from '../language/context.ts';
import type { PolicyDefinition } from '../language/definition.ts';
import { compileScope } from '../language/scope.ts';

/** A call, as far as `applies_to` can tell calls apart. */
export interface CallTarget {
  readonly tool: string;
  readonly agentId: string;
}

/** The calls whose mode policies in `strict` raise. */
export interface StrictScope {
  /** True when no published policy is in `strict`. */
  readonly isEmpty: boolean;
  covers(target: CallTarget): boolean;
}

type Covers = StrictScope['covers'];

/** Of a set without a policy in `strict`. */
export const noStrictPolicies: StrictScope = { isEmpty: true, covers: () => false };

/** The calls that a policy raises to `strict`; undefined for a policy in any other mode. */
export function strictCoverage(definition: PolicyDefinition): Covers | undefined {
  if (definition.mode !== 'strict') return undefined;
  const requirements = compileScope(definition);
  return ({ tool, agentId }) => {
    const context: PolicyContext = { tool: { name: tool }, agent: { id: agentId } };
    return requirements.every(({ holds }) => holds(context));
  };
}

/** Joins the coverage of policies: one policy in `strict` is enough. */
export function strictScope(coverages: readonly Covers[]): StrictScope {
  if (coverages.length === 0) return noStrictPolicies;
  return { isEmpty: false, covers: (target) => coverages.some((covers) => covers(target)) };
}
