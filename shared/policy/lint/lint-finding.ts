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
 * `error`: a rule cannot have its intended effect. `warning`: the rule works, but probably not as
 * intended. `info`: often intentional, such as a deny that makes an exception to an allow.
 */
export const lintSeverities = ['error', 'warning', 'info'] as const;
export type LintSeverity = (typeof lintSeverities)[number];

/** A probable mistake in a valid policy. */
export interface LintFinding {
  readonly kind: LintKind;
  readonly severity: LintSeverity;
  /** The definition's id. */
  readonly policy: string;
  /** `<definition id>/<rule name>`, or the definition's id if no single rule is at fault. */
  readonly rule: string;
  /** Path of the problem within the definition. */
  readonly path: string;
  readonly message: string;
  readonly fix: string;
  /** The rule with which `rule` conflicts. */
  readonly other?: string | undefined;
  /** A context that demonstrates the finding. */
  readonly example?: JsonObject | undefined;
}

/** The location of a rule in a finding. */
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
