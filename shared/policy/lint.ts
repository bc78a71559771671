import type { PolicyDefinition } from './definition.ts';
import type { LintFinding } from './lint-finding.ts';
import { findClashes } from './lint-pairs.ts';
import { lintRules } from './lint-rules.ts';
import { lintScope } from './lint-scope.ts';

/**
 * Reads valid policies as one set and reports what is probably a mistake. It claims nothing that
 * is not so, and does not see everything: patterns and comparisons of two paths are not solved.
 */
export function lintPolicies(definitions: readonly PolicyDefinition[]): readonly LintFinding[] {
  return [
    ...definitions.flatMap((definition) => [...lintScope(definition), ...lintRules(definition)]),
    ...findClashes(definitions),
  ];
}
