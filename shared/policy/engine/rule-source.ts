import type { Mode } from '../../vocabulary/action.ts';
import type { PolicyRule } from '../language/definition.ts';

/** A rule as the combination of outcomes sees it. */
export interface RuleSource {
  /** `<definition id>/<rule name>`. */
  readonly label: string;
  readonly rule: PolicyRule;
  readonly policyMode: Mode;
  readonly policyHash: string;
}
