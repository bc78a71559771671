import type { JsonValue } from '../../base/json.ts';
import { finish, type Steps } from '../../base/steps.ts';
import { sha256 } from '../../crypto/hash.ts';
import { canonicalJson } from '../../crypto/jcs.ts';
import type { Decision } from '../../vocabulary/verdict.ts';
import { compileCondition } from '../language/condition.ts';
import type { PolicyContext } from '../language/context.ts';
import type {
  Operator,
  PolicyDefinition,
  PolicyRule,
  RuleDecision,
} from '../language/definition.ts';
import { policyHash } from '../language/hash.ts';
import { compileScope } from '../language/scope.ts';
import { permits } from '../language/severity.ts';
import { combine } from './combine-rules.ts';
import { groupConditions, ruleLabel } from './rule.ts';

interface ConditionResult {
  readonly path: string;
  readonly operator: Operator;
  /** The literal, or the value at the `$ref` path; absent if there is no value. */
  readonly expected?: JsonValue | undefined;
  /** The value at the path; absent if there is no value. */
  readonly actual?: JsonValue | undefined;
  readonly result: boolean;
}

export interface RuleEvidence {
  readonly rule: string;
  readonly decision: RuleDecision;
  readonly matched: boolean;
  readonly condition_results: readonly ConditionResult[];
}

/** The response of `POST /v1/policies/replay`, without the member `conformance`. */
export interface PolicyReplay {
  readonly verdict: {
    readonly decision: Decision;
    readonly reason_code: string;
    readonly matched_rules: readonly string[];
    readonly evidence: readonly RuleEvidence[];
  };
  readonly policy_hash: string;
  /** Hash over the JCS form of `verdict`; the same replay gives the same hash. */
  readonly evidence_hash: string;
}

/**
 * Evaluates one valid policy on one context and reports every condition's result. The policy's own
 * mode is ignored: a policy in `monitor` is evaluated as if enforced. If `applies_to` excludes the
 * context, no rule matches. Throws `args.schema_invalid` for a context that JSON cannot represent
 * exactly.
 */
export function replayPolicy(definition: PolicyDefinition, context: PolicyContext): PolicyReplay {
  return finish(replayInSteps(definition, context));
}

/** Like `replayPolicy`, one rule per step. */
export function* replayInSteps(
  definition: PolicyDefinition,
  context: PolicyContext,
): Steps<PolicyReplay> {
  const hash = policyHash(definition);
  const applies = compileScope(definition).every(({ holds }) => holds(context));
  const evidence: RuleEvidence[] = [];
  for (const rule of definition.rules) {
    evidence.push(compileTrial(rule)(context, applies));
    yield;
  }
  const { decision, reasonCode, matchedRules } = combine(
    definition.rules
      .filter((_, index) => evidence[index]?.matched)
      .map((rule) => ({
        label: ruleLabel(definition, rule),
        rule,
        policyMode: 'enforce',
        policyHash: hash,
      })),
  );
  const verdict = { decision, reason_code: reasonCode, matched_rules: matchedRules, evidence };
  return { verdict, policy_hash: hash, evidence_hash: sha256(canonicalJson(verdict)) };
}

/** Compiles a rule for a report on each condition. `applies` states whether its policy applies. */
export function compileTrial(
  rule: PolicyRule,
): (context: PolicyContext, applies: boolean) => RuleEvidence {
  const { quantifier, conditions } = groupConditions(rule.when);
  const compiled = conditions.map((condition) => ({
    condition,
    ...compileCondition(condition, permits(rule.decision)),
  }));
  return (context, applies) => {
    const results = compiled.map(
      ({ condition, holds, actual, expected }): ConditionResult => ({
        path: condition.path,
        operator: condition.operator,
        expected: expected(context),
        actual: actual(context),
        result: holds(context),
      }),
    );
    const holds = ({ result }: ConditionResult) => result;
    const groupHolds = quantifier === 'all' ? results.every(holds) : results.some(holds);
    return {
      rule: rule.name,
      decision: rule.decision,
      matched: applies && groupHolds,
      condition_results: results,
    };
  };
}
