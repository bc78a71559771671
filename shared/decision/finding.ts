import { type ErrorCode, errorKindOf, errorKinds, isErrorCode } from '../errors/error-kinds.ts';
import type { PolicyOutcome } from '../policy/engine/policy-set.ts';
import type { Decision, Effect } from '../vocabulary/verdict.ts';
import { stepsFor, stepsForBudget, stepsForDecision } from './next-steps.ts';

/** The result of a stage, before the mode is applied. */
export interface Finding {
  readonly decision: Decision;
  readonly reasonCode: string;
  readonly summary: string;
  readonly nextSteps: readonly string[];
  readonly outcome?: PolicyOutcome;
  readonly effect?: Effect;
  readonly resetsAtMs?: number | undefined;
}

/** A refusal that does not come from a policy. */
export function deny(
  reasonCode: ErrorCode,
  summary: string = errorKinds[reasonCode].text,
): Finding {
  return { decision: 'deny', reasonCode, summary, nextSteps: stepsFor(reasonCode) };
}

/** The finding if a policy required a human decision and a human approved. */
export function satisfied(outcome: PolicyOutcome, effect: Effect): Finding {
  return {
    decision: 'allow',
    reasonCode: 'approval.satisfied',
    summary: 'A human approved this action.',
    nextSteps: [],
    outcome,
    effect,
  };
}

const verbs: Readonly<Record<Decision, string>> = {
  allow: 'allows this action',
  warn: 'allows this action with a warning',
  deny: 'denies this action',
  require_approval: 'requires a human to approve this action',
  require_tool_reapproval: 'requires the tool to be approved again',
};

/** Converts the policies' outcome to a finding with a summary. */
export function fromOutcome(outcome: PolicyOutcome, effect?: Effect): Finding {
  const { decision, reasonCode, matchedRules, nextSteps } = outcome;
  const rule = outcome.decidedBy ?? matchedRules[0];
  const finding: Finding = {
    decision,
    reasonCode,
    summary:
      rule === undefined
        ? textOf(reasonCode)
        : `Policy ${verbs[decision]}: ${reasonCode} (rule ${rule}).`,
    nextSteps: nextSteps.length > 0 ? nextSteps : stepsOf(outcome),
    outcome,
  };
  return effect === undefined ? finding : { ...finding, effect };
}

function textOf(reasonCode: string): string {
  return errorKindOf(reasonCode)?.text ?? reasonCode;
}

function stepsOf({ decision, reasonCode, matchedRules }: PolicyOutcome): readonly string[] {
  return matchedRules.length === 0 && isErrorCode(reasonCode)
    ? stepsFor(reasonCode)
    : stepsForDecision(decision);
}

/** Adds the reset time of a budget, so that the agent learns when to retry. */
export function withReset(finding: Finding, resetsAtMs: number | undefined): Finding {
  const { decision, summary, nextSteps } = finding;
  if (resetsAtMs === undefined || decision === 'allow' || decision === 'warn') return finding;
  const steps = stepsForBudget(decision, resetsAtMs);
  return {
    ...finding,
    resetsAtMs,
    summary: `${summary} The agent's budget is exhausted; it resets at ${new Date(resetsAtMs).toISOString()}.`,
    nextSteps: decision === 'deny' ? steps : [...nextSteps, ...steps],
  };
}
