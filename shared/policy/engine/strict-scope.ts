import type { PolicyContext } from '../language/context.ts';
import type { PolicyDefinition } from '../language/definition.ts';
import { compileScope } from '../language/scope.ts';

/** The part of a call that `applies_to` can distinguish. */
export interface CallTarget {
  readonly tool: string;
  readonly agentId: string;
}

/** The calls whose mode is raised by policies in `strict`. */
export interface StrictScope {
  /** True if no published policy is in `strict`. */
  readonly isEmpty: boolean;
  covers(target: CallTarget): boolean;
}

type Covers = StrictScope['covers'];

/** The scope of a set without a policy in `strict`. */
export const noStrictPolicies: StrictScope = { isEmpty: true, covers: () => false };

/** The calls that a policy raises to `strict`; undefined for a policy in another mode. */
export function strictCoverage(definition: PolicyDefinition): Covers | undefined {
  if (definition.mode !== 'strict') return undefined;
  const requirements = compileScope(definition);
  return ({ tool, agentId }) => {
    const context: PolicyContext = { tool: { name: tool }, agent: { id: agentId } };
    return requirements.every(({ holds }) => holds(context));
  };
}

/** Combines the coverage of policies: a call is covered if one policy covers it. */
export function strictScope(coverages: readonly Covers[]): StrictScope {
  if (coverages.length === 0) return noStrictPolicies;
  return { isEmpty: false, covers: (target) => coverages.some((covers) => covers(target)) };
}
