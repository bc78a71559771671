import type { PolicyContext } from '../language/context.ts';
import { ruleEffects } from '../language/severity.ts';
import { type Effort, findExample } from './find-example.ts';
import type { LintFinding } from './lint-finding.ts';
import { type Subject, scopesIntersect } from './lint-subject.ts';
import { implies, isImpossibleTogether } from './reasoning.ts';

/** Findings about a pair of rules; `rival` is the more restrictive rule. */
export function comparePair(
  subject: Subject,
  { rival, effort }: { readonly rival: Subject; readonly effort: Effort },
): readonly LintFinding[] {
  const findings: LintFinding[] = [];
  const shadowed = isWithin(subject, rival);
  if (shadowed) findings.push(shadow(subject, rival));
  if (!subject.permits || !rival.denies || !scopesIntersect(subject, rival)) return findings;
  const example = meet(subject, rival, effort);
  if (example) findings.push(contradiction({ subject, rival, example, shadowed }));
  return findings;
}

/** A context in which both rules match; undefined if none was found. */
export function meet(
  one: Pick<Subject, 'clauses'>,
  other: Pick<Subject, 'clauses'>,
  effort?: Effort,
): PolicyContext | undefined {
  for (const clause of one.clauses) {
    for (const against of other.clauses) {
      if (isImpossibleTogether(clause, against)) continue;
      const example = findExample([...clause, ...against], effort);
      if (example) return example;
    }
  }
  return undefined;
}

/** True only if `rival` matches every context that `subject` matches. */
function isWithin(subject: Subject, rival: Subject): boolean {
  return subject.clauses.every((clause) =>
    rival.clauses.some((wider) => wider.every((test) => implies(clause, test))),
  );
}

function shadow({ at }: Subject, rival: Subject): LintFinding {
  const other = rival.at.rule;
  const { decision } = ruleEffects[rival.rule.decision];
  return {
    kind: 'shadowed_rule',
    severity: 'warning',
    ...at,
    message: `Whenever it matches, ${other} matches too and decides ${decision}.`,
    fix: `Remove it, or narrow ${other}.`,
    other,
  };
}

function contradiction({
  subject,
  rival,
  example,
  shadowed,
}: {
  readonly subject: Subject;
  readonly rival: Subject;
  readonly example: PolicyContext;
  readonly shadowed: boolean;
}): LintFinding {
  const other = rival.at.rule;
  const cutsOut = !shadowed && isWithin(rival, subject);
  const part = shadowed ? 'all' : cutsOut ? 'a part' : 'some';
  return {
    kind: 'contradiction',
    severity: shadowed ? 'error' : cutsOut ? 'info' : 'warning',
    ...subject.at,
    message: `${other} denies ${part} of what it allows; the denial wins.`,
    fix: cutsOut
      ? 'Nothing, if the exception is intended.'
      : 'Make the conditions of both rules exclude each other.',
    other,
    example,
  };
}
