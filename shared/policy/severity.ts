import type { Decision } from '../decision/verdict.ts';
import type { RuleDecision } from './definition.ts';

/** What each decision of a rule comes to, and what an agent can do about it. */
export const ruleEffects: Readonly<
  Record<RuleDecision, { readonly decision: Decision; readonly nextSteps: readonly string[] }>
> = {
  allow: { decision: 'allow', nextSteps: [] },
  warn: { decision: 'warn', nextSteps: [] },
  require_approval: {
    decision: 'require_approval',
    nextSteps: ['Wait until a human has approved this action, then retry it unchanged.'],
  },
  require_tool_reapproval: {
    decision: 'require_tool_reapproval',
    nextSteps: ['Have the tool approved again, then retry.'],
  },
  deny: {
    decision: 'deny',
    nextSteps: ['Do not retry this action as it is: a policy refuses it.'],
  },
  require_reauth: {
    decision: 'deny',
    nextSteps: [
      'Have the delegating user authenticate again, then retry with a passport issued after that.',
    ],
  },
  require_policy_update: {
    decision: 'deny',
    nextSteps: ['Have an administrator update the policies, then retry.'],
  },
  dry_run: {
    decision: 'deny',
    nextSteps: ['Nothing was executed: a policy lets this action run as a dry run only.'],
  },
};

const rising: readonly Decision[] = [
  'allow',
  'warn',
  'require_approval',
  'require_tool_reapproval',
  'deny',
];

/** How restrictive a decision is; the highest of all matching rules wins. */
export function severity(decision: Decision): number {
  return rising.indexOf(decision);
}

/** True for the rules that can let an action pass: they must be able to read what they test. */
export function permits(decision: RuleDecision): boolean {
  return decision === 'allow' || decision === 'warn';
}
