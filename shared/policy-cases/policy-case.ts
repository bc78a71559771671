import type { JsonObject } from '../base/json.ts';
import type { PolicyContext } from '../policy/language/context.ts';
import type { Environment, Mode } from '../vocabulary/action.ts';
import type { Decision } from '../vocabulary/verdict.ts';

/** An action as in a preflight request, but without a passport. Only the tool is required. */
export interface CaseAction {
  readonly tool: string;
  /** Default: `anything`. */
  readonly resource?: string | undefined;
  readonly args?: JsonObject | undefined;
  /** Default: `1`. */
  readonly agent_id?: string | undefined;
  /** If set, the agent is registered under that name. Default: the agent is not registered. */
  readonly agent_name?: string | undefined;
  /** Default: `someone`. */
  readonly user_id?: string | undefined;
  readonly goal?: string | undefined;
  /** Default: `enforce`. */
  readonly mode?: Mode | undefined;
  /** Default: `prod`. */
  readonly environment?: Environment | undefined;
}

export interface CaseExpectation {
  readonly decision: Decision;
  readonly reason_code?: string | undefined;
  /** `<definition id>/<rule name>` of all matching rules, in any order. */
  readonly matched_rules?: readonly string[] | undefined;
  /**
   * All matching rules that had no effect, because their policies are in `monitor` or `warn`; in
   * any order.
   */
  readonly observed?: readonly string[] | undefined;
}

/** One test of a set of policies: an action or a whole context, and the expected outcome. */
export interface PolicyCase {
  readonly name: string;
  readonly action?: CaseAction | undefined;
  readonly context?: PolicyContext | undefined;
  readonly expect: CaseExpectation;
}

/** The content of a case file. */
export interface CaseFile {
  readonly file: string;
  /** File names relative to this file; undefined: every policy file in the same folder. */
  readonly policies?: readonly string[] | undefined;
  readonly cases: readonly PolicyCase[];
  /** The line number of each case. */
  readonly lines: readonly number[];
}
