import type { JsonValue } from '../../base/json.ts';
import { groupConditions } from '../engine/rule.ts';
import type { PolicyDefinition, PolicyRule } from '../language/definition.ts';
import { permits, ruleEffects, severity } from '../language/severity.ts';
import { type Clause, clausesOf } from './clause.ts';
import { atRule, type LintFinding } from './lint-finding.ts';
import { isImpossible } from './reasoning.ts';

/**
 * A rule that can match and whose policy decides (mode `enforce` or `strict`), prepared for
 * comparison with other rules.
 */
export interface Subject {
  readonly rule: PolicyRule;
  readonly at: Pick<LintFinding, 'policy' | 'rule' | 'path'>;
  /** The severity of the rule's decision. */
  readonly severity: number;
  readonly permits: boolean;
  readonly denies: boolean;
  /** The clauses that can match. */
  readonly clauses: readonly Clause[];
  /** The tools that the rule can match; undefined: any tool. */
  readonly tools: ReadonlySet<JsonValue> | undefined;
  /** The first segments of the ids of these tools; undefined: any segment. */
  readonly servers: ReadonlySet<string> | undefined;
  readonly agents: ReadonlySet<JsonValue> | undefined;
  /** The cost of comparing this rule with another one. */
  readonly weight: number;
}

/** A rule with its clauses, compiled once for all checks. */
export interface RuleReading {
  readonly definition: PolicyDefinition;
  readonly rule: PolicyRule;
  readonly path: string;
  /** The clauses that can match. */
  readonly clauses: readonly Clause[];
}

/** Reads each rule on demand. */
export function* readRules(definition: PolicyDefinition): Generator<RuleReading> {
  for (const [index, rule] of definition.rules.entries()) {
    const clauses = clausesOf(definition, rule).filter((clause) => !isImpossible(clause));
    yield { definition, rule, path: `rules[${index}]`, clauses };
  }
}

/**
 * Prepares a rule for comparison. Undefined for a rule that cannot match, or whose policy does not
 * decide.
 */
export function subjectOf(reading: RuleReading): Subject | undefined {
  const { definition, rule, path, clauses } = reading;
  const { mode = 'enforce' } = definition;
  if ((mode !== 'enforce' && mode !== 'strict') || clauses.length === 0) return undefined;
  const { decision } = ruleEffects[rule.decision];
  const tools = valuesAt(clauses, 'tool.name');
  return {
    rule,
    at: atRule(definition, rule, path),
    severity: severity(decision),
    permits: permits(rule.decision),
    denies: decision === 'deny',
    clauses,
    tools,
    servers: serversOf(clauses, tools),
    agents: valuesAt(clauses, 'agent.id'),
    weight: weigh(clauses),
  };
}

/** First segments of the tools that a rule can match; undefined if any can match. */
function serversOf(
  clauses: readonly Clause[],
  tools: Subject['tools'],
): ReadonlySet<string> | undefined {
  const names = tools === undefined ? globsOf(clauses) : [...tools];
  const servers = new Set<string>();
  for (const name of names ?? ['*']) {
    const [server = ''] = String(name).split('.');
    if (server.includes('*')) return undefined;
    servers.add(server);
  }
  return servers;
}

function globsOf(clauses: readonly Clause[]): readonly string[] | undefined {
  const lists = clauses.map((clause) => clause.find(({ globs }) => globs !== undefined)?.globs);
  return lists.every((list) => list !== undefined) ? lists.flat() : undefined;
}

/** The path of a condition. */
export function conditionPath({ rule, at }: Pick<Subject, 'rule' | 'at'>, index: number): string {
  return `${at.path}.when.${groupConditions(rule.when).quantifier}[${index}]`;
}

function weigh(clauses: readonly Clause[]): number {
  let weight = 0;
  for (const { values, excludes } of clauses.flat()) {
    weight += 1 + (values?.length ?? 0) + (excludes?.length ?? 0);
  }
  return weight;
}

/**
 * The values at a path to which a rule is limited; undefined if the rule allows any value there.
 */
function valuesAt(clauses: readonly Clause[], path: string): ReadonlySet<JsonValue> | undefined {
  const all = new Set<JsonValue>();
  for (const clause of clauses) {
    const here = clause.filter((test) => test.path === path);
    const listed = here.find(({ values }) => values !== undefined)?.values;
    if (listed === undefined) return undefined;
    for (const value of listed) {
      if (here.every(({ holdsFor }) => holdsFor?.(value) ?? true)) all.add(value);
    }
  }
  return all;
}

/**
 * Returns a function that finds the rules that can match the same tools as a given rule. The result
 * may contain additional rules, but never omits one.
 */
export function rivalFinder(subjects: readonly Subject[]): (subject: Subject) => Iterable<Subject> {
  const byTool = new Map<JsonValue, Subject[]>();
  const byServer = new Map<string, Subject[]>();
  const globbed = new Map<string, Subject[]>();
  const everywhere: Subject[] = [];
  for (const subject of subjects) {
    const { tools, servers } = subject;
    for (const tool of tools ?? []) file(byTool, tool, subject);
    for (const server of servers ?? []) file(byServer, server, subject);
    if (servers === undefined) everywhere.push(subject);
    else if (tools === undefined) for (const server of servers) file(globbed, server, subject);
  }
  return ({ tools, servers }) => {
    if (servers === undefined) return subjects;
    const near = [...servers].flatMap((server) =>
      tools === undefined ? (byServer.get(server) ?? []) : (globbed.get(server) ?? []),
    );
    const same = [...(tools ?? [])].flatMap((tool) => byTool.get(tool) ?? []);
    return new Set([...everywhere, ...near, ...same]);
  };
}

function file<Key>(index: Map<Key, Subject[]>, key: Key, subject: Subject): void {
  const filed = index.get(key);
  if (filed) filed.push(subject);
  else index.set(key, [subject]);
}

/** True unless the rules are limited to disjoint sets of tools or agents. */
export function scopesIntersect(one: Subject, other: Subject): boolean {
  return setsIntersect(one.tools, other.tools) && setsIntersect(one.agents, other.agents);
}

function setsIntersect(
  one: ReadonlySet<JsonValue> | undefined,
  other: ReadonlySet<JsonValue> | undefined,
): boolean {
  if (one === undefined || other === undefined) return one === other;
  return !one.isDisjointFrom(other);
}
