import type { JsonObject } from '../base/json.ts';
import type { PolicyContext } from '../policy/language/context.ts';
import type { Environment, Mode } from '../vocabulary/action.ts';
import type { Decision } from '../vocabulary/verdict.ts';

/** An action as preflight takes it, without passport. Only the tool must be named. */
export interface CaseAction {
  readonly tool: string;
  /** Default: `anything`. */
  readonly resource?: string | undefined;
  readonly args?: JsonObject | undefined;
  /** Default: `1`. */
  readonly agent_id?: string | undefined;
  /** Given: the agent is registered under that name. Default: no record of it. */
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
  /** `<definition id>/<rule name>`; all of them, in any order. */
  readonly matched_rules?: readonly string[] | undefined;
  /** Rules that matched without counting, of policies in `monitor` or `warn`; all, in any order. */
  readonly observed?: readonly string[] | undefined;
}

/** One test of a set of policies: either an action or a whole context, and what it must come to. */
export interface PolicyCase {
  readonly name: string;
  readonly action?: CaseAction | undefined;
  readonly context?: PolicyContext | undefined;
  readonly expect: CaseExpectation;
}

/** What a case file holds. */
export interface CaseFile {
  readonly file: string;
  /** Names relative to the file; undefined: every policy file beside it. */
  readonly policies?: readonly string[] | undefined;
  readonly cases: readonly PolicyCase[];
  /** The line of each case, in their order. */
  readonly lines: readonly number[];
}
