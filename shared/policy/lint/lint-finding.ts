import type { JsonObject } from '../../base/json.ts';
import { ruleLabel } from '../engine/rule.ts';
import type { PolicyDefinition, PolicyRule } from '../language/definition.ts';

export const lintKinds = [
  'contradiction',
  'shadowed_rule',
  'never_matches',
  'permits_by_difference',
  'permits_by_part',
  'permits_any_tool',
  'number_slips_past',
  'unused_applies_to',
  'missing_reason',
  'not_compared',
] as const;
export type LintKind = (typeof lintKinds)[number];

/**
 * `error`: a rule cannot do what it says. `warning`: it works, and probably not as meant. `info`:
 * often meant, such as a deny that cuts a piece out of an allow.
 */
export const lintSeverities = ['error', 'warning', 'info'] as const;
export type LintSeverity = (typeof lintSeverities)[number];

/** Something in a valid policy that is probably not meant. */
export interface LintFinding {
  readonly kind: LintKind;
  readonly severity: LintSeverity;
  /** The definition's id. */
  readonly policy: string;
  /** `<definition id>/<rule name>`, or the definition's id where no single rule is at fault. */
  readonly rule: string;
  /** Where in its definition. */
  readonly path: string;
  readonly message: string;
  readonly fix: string;
  /** The rule it clashes with. */
  readonly other?: string | undefined;
  /** A context in which it shows. */
  readonly example?: JsonObject | undefined;
}

/** Where a rule stands, as a finding names it. */
export function atRule(
  definition: PolicyDefinition,
  rule: PolicyRule,
  path: string,
): Pick<LintFinding, 'policy' | 'rule' | 'path'> {
  return { policy: definition.id, rule: ruleLabel(definition, rule), path };
}

export function countFindings(
  findings: readonly LintFinding[],
): Readonly<Record<LintSeverity, number>> {
  const counts = { error: 0, warning: 0, info: 0 };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}
