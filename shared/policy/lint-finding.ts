export const lintKinds = [
  'contradiction',
  'shadowed_rule',
  'never_matches',
  'permits_by_difference',
  'unused_applies_to',
  'missing_reason',
  'not_compared',
] as const;
export type LintKind = (typeof lintKinds)[number];

/** Something in a valid policy that is probably not meant. */
export interface LintFinding {
  readonly kind: LintKind;
  /** `note` where it is often meant, such as a deny that cuts a piece out of an allow. */
  readonly severity: 'warning' | 'note';
  /** `<definition id>/<rule name>`, or the definition's id where no single rule is at fault. */
  readonly rule: string;
  /** Where in its definition. */
  readonly path: string;
  readonly reason: string;
  readonly fix: string;
  /** The rule it clashes with. */
  readonly other?: string | undefined;
}
