import type { JsonValue } from '../../base/json.ts';
import { groupConditions } from '../engine/rule.ts';
import type { PolicyContext } from '../language/context.ts';
import { type Clause, conditionTest, type Test } from './clause.ts';
import { type Effort, findExample } from './find-example.ts';
import type { LintFinding } from './lint-finding.ts';
import { conditionPath, type Subject } from './lint-subject.ts';
import { isImpossibleTogether } from './reasoning.ts';

/**
 * Values for which every ordered comparison is false, although a tool may read them as a number.
 */
const noNumbers: readonly JsonValue[] = ['1e3x', '1,000', [1000], true];

/** Values that the agent supplies. Other values come from records with validated types. */
const written = /^(args|resource)\./;

/**
 * Finds limits of a refusing rule that a non-numeric value bypasses: the comparison is false for
 * such a value, and a permitting rule matches the value. `near`: the rules for the same tools.
 */
export function findBypassedLimits(
  subject: Subject,
  { near, effort }: { readonly near: readonly Subject[]; readonly effort: Effort },
): readonly LintFinding[] {
  return limitsOf(subject).flatMap(({ test, path }) => {
    const isLimit = ({ path: at, bound }: Test) => bound !== undefined && at === test.path;
    const rest = subject.clauses
      .filter((clause) => clause.some(isLimit))
      .map((clause) => clause.filter((one) => !isLimit(one)));
    const bypass = firstBypass(rest, { test, near, effort });
    return bypass === undefined ? [] : [describe(subject, { path, test, ...bypass })];
  });
}

/**
 * Like `findBypassedLimits`, for a set without permitting rules. Whether a value bypasses a limit
 * then depends on policies outside the set.
 */
export function unguardedLimits(subject: Subject): readonly LintFinding[] {
  return limitsOf(subject).map(({ test, path }) => ({
    kind: 'number_slips_past',
    severity: 'info',
    ...subject.at,
    path,
    message: `${test.operator} is false for values that are not numbers, such as the text "1e3x". No rule of these policies allows such a value.`,
    fix: `Add an ordered condition on ${test.path} to every rule that permits.`,
  }));
}

/** The limits that a refusing rule sets for agent-supplied values: the first one of each path. */
function limitsOf({ rule, at, permits }: Subject): readonly Limit[] {
  if (permits) return [];
  const limits = groupConditions(rule.when).conditions.flatMap((condition, index): Limit[] => {
    const test = conditionTest(condition, false);
    if (test.bound === undefined || !written.test(test.path)) return [];
    return [{ test, path: conditionPath({ rule, at }, index) }];
  });
  return [...Map.groupBy(limits, ({ test }) => test.path).values()].flatMap(
    ([first]) => first ?? [],
  );
}

interface Limit {
  readonly test: Test;
  readonly path: string;
}

interface Bypass {
  readonly permitting: Subject;
  readonly example: PolicyContext;
}

function firstBypass(
  rest: readonly Clause[],
  {
    test,
    near,
    effort,
  }: { readonly test: Test; readonly near: readonly Subject[]; readonly effort: Effort },
): Bypass | undefined {
  const refusing = near.filter(({ permits }) => !permits);
  const values = noNumbers.map((value) =>
    conditionTest({ path: test.path, operator: '==', value }, true),
  );
  const others = rest.flatMap((clause) => values.map((isValue) => [...clause, isValue]));
  for (const permitting of near.filter(({ permits }) => permits)) {
    for (const clause of permitting.clauses) {
      for (const other of others) {
        effort.left -= clause.length;
        if (effort.left < 0) return undefined;
        if (isImpossibleTogether(clause, other)) continue;
        const example = findExample([...clause, ...other], effort);
        effort.left -= refusing.length;
        if (example && !refusing.some((rule) => matches(rule, example))) {
          return { permitting, example };
        }
      }
    }
  }
  return undefined;
}

function matches({ clauses }: Subject, context: PolicyContext): boolean {
  return clauses.some((clause) => clause.every(({ holds }) => holds(context)));
}

function describe(
  { at }: Subject,
  { path, test, permitting, example }: Bypass & Limit,
): LintFinding {
  const other = permitting.at.rule;
  return {
    kind: 'number_slips_past',
    severity: 'warning',
    ...at,
    path,
    message: `${test.operator} is false for values that are not numbers, such as the text "1e3x", and ${other} allows such a value.`,
    fix: `Add an ordered condition on ${test.path} to ${other}, so that it permits numbers only.`,
    other,
    example,
  };
}
