import { finish, type Steps } from '../../base/steps.ts';
import type { PolicyDefinition } from '../language/definition.ts';
import type { Effort } from './find-example.ts';
import type { LintFinding } from './lint-finding.ts';
import { findBypassedLimits, unguardedLimits } from './lint-numbers.ts';
import { comparePair } from './lint-pairs.ts';
import { lintRule } from './lint-rules.ts';
import { lintScope } from './lint-scope.ts';
import {
  type RuleReading,
  readRules,
  rivalFinder,
  type Subject,
  subjectOf,
} from './lint-subject.ts';

/**
 * Budget of one lint: the number of compared tests and tried values. Using it up takes about a
 * second on a slow machine.
 */
const effortMax = 4_000_000;
/** Maximum number of findings in a report. */
const findingsMax = 2000;

/**
 * Checks valid policies as one set and reports probable mistakes. Findings are never false, but the
 * check is not complete (see `reasoning.ts`).
 */
export function lintPolicies(definitions: readonly PolicyDefinition[]): readonly LintFinding[] {
  return finish(lintInSteps(definitions));
}

/** Like `lintPolicies`, in short steps, so that a server can handle other requests in between. */
export function* lintInSteps(
  definitions: readonly PolicyDefinition[],
): Steps<readonly LintFinding[]> {
  const findings: LintFinding[] = [];
  const readings: RuleReading[] = [];
  for (const definition of definitions) {
    const rules: RuleReading[] = [];
    const inRules: LintFinding[] = [];
    for (const reading of readRules(definition)) {
      rules.push(reading);
      inRules.push(...lintRule(reading));
      yield;
    }
    findings.push(...lintScope(definition, rules), ...inRules);
    readings.push(...rules);
  }
  const subjects: Subject[] = [];
  for (const reading of readings) {
    const subject = subjectOf(reading);
    if (subject !== undefined) subjects.push(subject);
    yield;
  }
  for (const some of compareRules(subjects)) {
    findings.push(...some);
    if (findings.length > findingsMax) break;
    yield;
  }
  if (findings.length <= findingsMax) return findings;
  return [
    ...findings.slice(0, findingsMax),
    truncationFinding(findings[findingsMax] as LintFinding),
  ];
}

function* compareRules(subjects: readonly Subject[]): Generator<readonly LintFinding[]> {
  const rivalsOf = rivalFinder(subjects);
  const nobodyPermits = !subjects.some(({ permits }) => permits);
  const effort: Effort = { left: effortMax };
  for (const subject of subjects) {
    const near = [...rivalsOf(subject)];
    yield nobodyPermits ? unguardedLimits(subject) : findBypassedLimits(subject, { near, effort });
    for (const rival of near) {
      if (rival.severity <= subject.severity) continue;
      effort.left -= subject.weight * rival.weight;
      if (effort.left < 0) {
        yield [uncomparedFinding(subject)];
        return;
      }
      yield comparePair(subject, { rival, effort });
    }
  }
}

function truncationFinding({ policy, rule, path }: LintFinding): LintFinding {
  return {
    kind: 'not_compared',
    severity: 'info',
    policy,
    rule,
    path,
    message: `There are more than ${findingsMax} findings: the remaining ones are omitted.`,
    fix: 'Fix some of these, or lint fewer policies at a time.',
  };
}

function uncomparedFinding({ at }: Subject): LintFinding {
  return {
    kind: 'not_compared',
    severity: 'info',
    ...at,
    message:
      'There are too many rules for the same tools; this rule and later ones were not compared.',
    fix: 'Lint fewer policies at a time.',
  };
}
