import type { Decision } from '../../vocabulary/verdict.ts';
import type { RuleDecision } from './definition.ts';

interface RuleEffect {
  readonly decision: Decision;
  /** The next steps for an agent. If empty, the next steps of the decision apply. */
  readonly nextSteps: readonly string[];
}

/** The effect of each rule decision, and the next steps for an agent. */
export const ruleEffects: Readonly<Record<RuleDecision, RuleEffect>> = {
  allow: { decision: 'allow', nextSteps: [] },
  warn: { decision: 'warn', nextSteps: [] },
  require_approval: { decision: 'require_approval', nextSteps: [] },
  require_tool_reapproval: { decision: 'require_tool_reapproval', nextSteps: [] },
  deny: { decision: 'deny', nextSteps: [] },
  require_reauth: {
    decision: 'deny',
    nextSteps: [
      'Ask the user to authenticate again, then retry with a passport issued after that.',
    ],
  },
  require_policy_update: {
    decision: 'deny',
    nextSteps: ['Ask the operator to update the policies; until then the decision stays the same.'],
  },
  dry_run: {
    decision: 'deny',
    nextSteps: [
      'Nothing was executed: a policy lets this action run only as a rehearsal. Do not report it as done.',
    ],
  },
};

const rising: readonly Decision[] = [
  'allow',
  'warn',
  'require_approval',
  'require_tool_reapproval',
  'deny',
];

/** Returns how restrictive a decision is. The matching rule with the highest severity decides. */
export function severity(decision: Decision): number {
  return rising.indexOf(decision);
}

/** True for rules that can allow an action. Their conditions are false for missing values. */
export function permits(decision: RuleDecision): boolean {
  return decision === 'allow' || decision === 'warn';
}
