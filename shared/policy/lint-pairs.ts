import type { Decision } from '../decision/verdict.ts';
import { type Clause, clausesOf } from './clause.ts';
import type { PolicyDefinition } from './definition.ts';
import type { LintFinding } from './lint-finding.ts';
import { implies, isSatisfiable } from './reasoning.ts';
import type { Primitive } from './relations.ts';
import { ruleLabel } from './rule.ts';
import { ruleEffects, severity } from './severity.ts';

/** Comparisons of single tests and values that one lint may make: it answers within a request. */
const comparisonsMax = 5_000_000;

interface Subject {
  readonly label: string;
  readonly path: string;
  readonly decision: Decision;
  /** Those that can match at all. */
  readonly clauses: readonly Clause[];
  /** The tools it can match; undefined: any. */
  readonly tools: readonly Primitive[] | undefined;
  readonly scope: string;
  /** How much there is to compare. */
  readonly weight: number;
}

/** What can be said of two rules of the deciding policies: who contradicts or overshadows whom. */
export function findClashes(definitions: readonly PolicyDefinition[]): readonly LintFinding[] {
  const subjects = definitions
    .filter(({ mode = 'enforce' }) => mode === 'enforce' || mode === 'strict')
    .flatMap(subjectsOf);
  const rivalsOf = rivalFinder(subjects);
  const findings: LintFinding[] = [];
  let left = comparisonsMax;
  for (const subject of subjects) {
    for (const rival of rivalsOf(subject)) {
      if (severity(rival.decision) <= severity(subject.decision)) continue;
      left -= subject.weight * rival.weight;
      if (left < 0) return [...findings, notCompared(subject)];
      findings.push(...compare(subject, rival));
    }
  }
  return findings;
}

/** `rival` is the more restrictive one. */
function compare(subject: Subject, rival: Subject): readonly LintFinding[] {
  const shadowed = isWithin(subject, rival);
  const findings = shadowed ? [shadow(subject, rival)] : [];
  const opposite = subject.decision === 'allow' && rival.decision === 'deny';
  if (!opposite || subject.scope !== rival.scope || !overlap(subject, rival)) return findings;
  return [...findings, contradiction(subject, rival)];
}

function subjectsOf(definition: PolicyDefinition): readonly Subject[] {
  return definition.rules.flatMap((rule, index) => {
    const clauses = clausesOf(definition, rule).filter(isSatisfiable);
    if (clauses.length === 0) return [];
    const tools = valuesAt(clauses, 'tool.name');
    const agents = valuesAt(clauses, 'agent.id');
    return [
      {
        label: ruleLabel(definition, rule),
        path: `rules[${index}]`,
        decision: ruleEffects[rule.decision].decision,
        clauses,
        tools,
        scope: JSON.stringify([tools ?? null, agents ?? null]),
        weight: weigh(clauses),
      },
    ];
  });
}

function weigh(clauses: readonly Clause[]): number {
  let weight = 0;
  for (const { values, excludes } of clauses.flat()) {
    weight += 1 + (values?.length ?? 0) + (excludes?.length ?? 0);
  }
  return weight;
}

/** The values at a path that a rule is confined to, sorted; undefined when it is not. */
function valuesAt(clauses: readonly Clause[], path: string): readonly Primitive[] | undefined {
  const all = new Set<Primitive>();
  for (const clause of clauses) {
    const here = clause.filter((test) => test.path === path);
    const listed = here.find(({ values }) => values !== undefined)?.values;
    if (listed === undefined) return undefined;
    for (const value of listed) {
      if (here.every(({ holdsFor }) => holdsFor?.(value) ?? true)) all.add(value);
    }
  }
  return [...all].sort();
}

/** Rules that can match the same tools. */
function rivalFinder(subjects: readonly Subject[]): (subject: Subject) => Iterable<Subject> {
  const byTool = new Map<Primitive, Subject[]>();
  const everywhere: Subject[] = [];
  for (const subject of subjects) {
    if (subject.tools === undefined) everywhere.push(subject);
    for (const tool of subject.tools ?? []) {
      const filed = byTool.get(tool);
      if (filed) filed.push(subject);
      else byTool.set(tool, [subject]);
    }
  }
  return ({ tools }) =>
    tools === undefined
      ? subjects
      : new Set([...everywhere, ...tools.flatMap((tool) => byTool.get(tool) ?? [])]);
}

function isWithin(subject: Subject, rival: Subject): boolean {
  return subject.clauses.every((clause) =>
    rival.clauses.some((wider) => wider.every((test) => implies(clause, test))),
  );
}

function overlap(subject: Subject, rival: Subject): boolean {
  return subject.clauses.some((clause) =>
    rival.clauses.some((other) => isSatisfiable([...clause, ...other])),
  );
}

function shadow(subject: Subject, rival: Subject): LintFinding {
  return {
    kind: 'shadowed_rule',
    severity: 'warning',
    rule: subject.label,
    path: subject.path,
    reason: `Whenever it matches, ${rival.label} matches too and decides ${rival.decision}.`,
    fix: `Remove it, or narrow ${rival.label}.`,
    other: rival.label,
  };
}

function contradiction(subject: Subject, rival: Subject): LintFinding {
  const cutsOut = isWithin(rival, subject) && !isWithin(subject, rival);
  return {
    kind: 'contradiction',
    severity: cutsOut ? 'note' : 'warning',
    rule: subject.label,
    path: subject.path,
    reason: cutsOut
      ? `${rival.label} denies a part of what it allows; the denial wins.`
      : `${rival.label} denies some of what it allows; the denial wins.`,
    fix: cutsOut
      ? 'Nothing, if that exception is meant.'
      : 'Make the conditions of the two exclude each other, so that each says what it decides.',
    other: rival.label,
  };
}

function notCompared(subject: Subject): LintFinding {
  return {
    kind: 'not_compared',
    severity: 'note',
    rule: subject.label,
    path: subject.path,
    reason: 'There are too many rules for the same tools: from here on they were not compared.',
    fix: 'Lint fewer policies at a time.',
  };
}
