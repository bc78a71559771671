import { decide } from '../decision/decide.ts';
import type { DecisionState } from '../decision/state.ts';
import { compilePolicies } from '../policy/engine/compile.ts';
import type { PolicySet } from '../policy/engine/policy-set.ts';
import type { PolicyDefinition } from '../policy/language/definition.ts';
import { policyHash } from '../policy/language/hash.ts';
import type { Action } from '../vocabulary/action.ts';
import type { Decision } from '../vocabulary/verdict.ts';
import type { CaseAction, CaseExpectation, PolicyCase } from './policy-case.ts';

interface CaseOutcome {
  readonly decision: Decision;
  readonly reason_code: string;
  readonly matched_rules: readonly string[];
  readonly observed: readonly string[];
}

interface CaseDifference {
  readonly field: keyof CaseExpectation;
  readonly expected: string | readonly string[];
  readonly actual: string | readonly string[];
}

/** The result of one case. A case passes if there are no differences from the expectation. */
export interface CaseResult {
  readonly name: string;
  readonly passed: boolean;
  readonly differences: readonly CaseDifference[];
  readonly actual: CaseOutcome;
}

/**
 * Runs cases as if exactly these policies were published. An action is decided as preflight decides
 * it; a context is evaluated directly.
 */
export function runCases(
  cases: readonly PolicyCase[],
  definitions: readonly PolicyDefinition[],
): readonly CaseResult[] {
  const policies = compilePolicies(
    definitions.map((definition, index) => ({
      id: index + 1,
      hash: policyHash(definition),
      definition,
    })),
  );
  return cases.map((one) => {
    const actual = outcomeOf(one, policies);
    const differences = compare(one.expect, actual);
    return { name: one.name, passed: differences.length === 0, differences, actual };
  });
}

function outcomeOf({ action, context }: PolicyCase, policies: PolicySet): CaseOutcome {
  const { decision, reasonCode, matchedRules, observed } =
    action === undefined
      ? policies.evaluate(context ?? {})
      : decide(actionOf(action), stateOf(action, policies), 0);
  return {
    decision,
    reason_code: reasonCode,
    matched_rules: matchedRules,
    observed: observed.map(({ rule }) => rule),
  };
}

const tenant = { id: 'case', name: 'case', mode: 'enforce' } as const;

function actionOf({ tool, resource, args, agent_id, user_id, goal, mode }: CaseAction): Action {
  return {
    tenantId: tenant.id,
    agentId: agent_id ?? '1',
    userId: user_id ?? 'someone',
    tool,
    resource: resource ?? 'anything',
    args: args ?? {},
    goal,
    mode,
  };
}

function stateOf(
  { agent_id, agent_name, environment }: CaseAction,
  policies: PolicySet,
): DecisionState {
  return {
    point: 'preflight',
    audience: '',
    tenant,
    environment: environment ?? 'prod',
    killSwitches: [],
    ...(agent_name === undefined
      ? {}
      : { agent: { id: agent_id ?? '1', name: agent_name, capabilities: ['**'] } }),
    policies,
  };
}

function compare(expect: CaseExpectation, actual: CaseOutcome): readonly CaseDifference[] {
  return (['decision', 'reason_code', 'matched_rules', 'observed'] as const).flatMap((field) => {
    const expected = expect[field];
    const found = actual[field];
    if (expected === undefined || comparable(expected) === comparable(found)) return [];
    return [{ field, expected, actual: found }];
  });
}

/** Lists are compared as sets, because the order of matched rules has no meaning. */
function comparable(value: string | readonly string[]): string {
  return JSON.stringify(typeof value === 'string' ? value : [...new Set(value)].sort());
}
