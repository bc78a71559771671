import type { Mode } from '../../vocabulary/action.ts';
import type { PolicyRule } from '../language/definition.ts';

/** The data of a rule that combining outcomes needs. */
export interface RuleSource {
  /** `<definition id>/<rule name>`. */
  readonly label: string;
  readonly rule: PolicyRule;
  readonly policyMode: Mode;
  readonly policyHash: string;
}
