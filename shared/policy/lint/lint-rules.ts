import { groupConditions } from '../engine/rule.ts';
import { refPath } from '../language/condition.ts';
import { fieldAt } from '../language/context-fields.ts';
import type { PolicyCondition, PolicyRule } from '../language/definition.ts';
import { isPrimitive } from '../language/relations.ts';
import { permits } from '../language/severity.ts';
import { type Clause, conditionTest } from './clause.ts';
import { atRule, type LintFinding } from './lint-finding.ts';
import type { RuleReading } from './lint-subject.ts';

const placeholder = /^\W*(todo|tbd|fixme|none|null|n\/?a|unknown|reason|x+)?\W*$/i;

/** Findings about single rules. */
export function lintRule(reading: RuleReading): readonly LintFinding[] {
  const conditions = conditionFindings(reading);
  const neverMatches = conditions.some(({ kind }) => kind === 'never_matches');
  return [
    ...reasonFindings(reading),
    ...conditions,
    ...(neverMatches ? [] : [...rangeFindings(reading), ...breadthFindings(reading)]),
  ];
}

function reasonFindings({ definition, rule, path }: RuleReading): readonly LintFinding[] {
  if (!placeholder.test(rule.reason) && rule.reason !== rule.decision) return [];
  return [
    {
      kind: 'missing_reason',
      severity: 'warning',
      ...atRule(definition, rule, `${path}.reason`),
      message: `"${rule.reason}" does not explain the decision to the agent or in the ledger.`,
      fix: 'Set a reason code that explains the decision, such as refund.out_of_policy.',
    },
  ];
}

function conditionFindings({ definition, rule, path }: RuleReading): readonly LintFinding[] {
  const { quantifier, conditions } = groupConditions(rule.when);
  return conditions.flatMap((condition, index): readonly LintFinding[] => {
    const at = {
      severity: 'warning',
      ...atRule(definition, rule, `${path}.when.${quantifier}[${index}]`),
    } as const;
    const futile =
      explainNeverTrue(condition, permits(rule.decision)) ?? explainUnknownPath(condition);
    if (futile) return [{ kind: 'never_matches', ...at, severity: 'error', ...futile }];
    if (restsOnDifference(condition, rule)) {
      return [{ kind: 'permits_by_difference', ...at, ...explainDifference(condition) }];
    }
    const part = permits(rule.decision) ? explainUnanchored(condition) : undefined;
    return part ? [{ kind: 'permits_by_part', ...at, ...part }] : [];
  });
}

interface Explanation {
  readonly message: string;
  readonly fix: string;
}

/** Explains why no context makes the condition true; undefined if a context might. */
function explainNeverTrue(
  condition: PolicyCondition,
  rulePermits: boolean,
): Explanation | undefined {
  const { path, operator, value } = condition;
  const { values } = conditionTest(condition, rulePermits);
  if (values?.length === 0) {
    return operator === 'in'
      ? { message: 'An empty list contains no value.', fix: 'Add the intended values to the list.' }
      : {
          message: `${operator} compares numbers, and ${JSON.stringify(value)} is none.`,
          fix: 'Compare with a number.',
        };
  }
  const field = fieldAt(path);
  if (field?.kind === 'object' && refPath(value) === undefined && comparesPrimitives(condition)) {
    return {
      message: `${path} is an object, which never matches a primitive.`,
      fix: path === 'tool' ? 'Use tool.name.' : 'Name a field of the object.',
    };
  }
  const { words } = field?.kind === 'text' ? field : {};
  if (field?.kind !== 'text' || values === undefined) return undefined;
  const possible = values.some((one) => typeof one === 'string' && (words?.includes(one) ?? true));
  return possible
    ? undefined
    : {
        message: `${path} is ${words ? `one of ${words.join(', ')}` : 'a string'}, never ${JSON.stringify(value)}.`,
        fix: 'Compare with a value that this field can have.',
      };
}

function comparesPrimitives({ operator, value }: PolicyCondition): boolean {
  if (isPrimitive(value)) return true;
  if (operator !== 'in' && operator !== 'not_in') return false;
  return Array.isArray(value) && value.some(isPrimitive);
}

/** Explains a path that no context has, and which is therefore probably misspelt. */
function explainUnknownPath({ path, value }: PolicyCondition): Explanation | undefined {
  const unknown = [path, refPath(value)].find((one) => one !== undefined && !fieldAt(one));
  if (unknown === undefined) return undefined;
  return {
    message: `No context has ${unknown}, so the condition does not depend on the call.`,
    fix: /^tool(_|-)?name$/i.test(unknown) ? 'Use tool.name.' : 'Correct the path.',
  };
}

/** True for an allow rule with a `!=` or `not_in` condition on an optional value. */
function restsOnDifference({ path, operator }: PolicyCondition, { decision }: PolicyRule): boolean {
  if (decision !== 'allow' || (operator !== '!=' && operator !== 'not_in')) return false;
  const field = fieldAt(path);
  return !(field?.kind === 'text' && field.always);
}

function explainDifference({ path }: PolicyCondition): Explanation {
  return {
    message: `The rule allows every value of ${path} except those in the condition, and it does not match if ${path} is absent.`,
    fix: 'List the allowed values with == or in, or deny the exceptions in a separate rule.',
  };
}

const anchored = /^(\(\?[a-z]+\))?(\^|\\A).*(\$|\\z)$/s;

/** Explains that a pattern without anchors allows any other text around the match. */
function explainUnanchored({ path, operator, value }: PolicyCondition): Explanation | undefined {
  if (operator !== 'matches' || typeof value !== 'string') return undefined;
  if (anchored.test(value) && !/(^|[^\\])\|/.test(value.replace(/\([^()]*\)/g, ''))) {
    return undefined;
  }
  return {
    message: `It allows any ${path} in which ${JSON.stringify(value)} occurs anywhere.`,
    fix: 'Begin the pattern with ^ and end it with $, alternatives in a group, so that it matches the whole text.',
  };
}

/** Finds conditions that can each hold separately, but not together. */
function rangeFindings({ definition, rule, path, clauses }: RuleReading): readonly LintFinding[] {
  if (clauses.length > 0) return [];
  return [
    {
      kind: 'never_matches',
      severity: 'error',
      ...atRule(definition, rule, `${path}.when`),
      message: 'The conditions and applies_to exclude each other, so the rule never matches.',
      fix: 'Widen the ranges or lists until one value satisfies all of them.',
    },
  ];
}

/** Reports an allow rule that names no tool, because it also allows tools that are added later. */
function breadthFindings({ definition, rule, path, clauses }: RuleReading): readonly LintFinding[] {
  const namesTools = (clause: Clause) => clause.some((test) => /^tool(\.|$)/.test(test.path));
  if (rule.decision !== 'allow' || clauses.every(namesTools)) return [];
  return [
    {
      kind: 'permits_any_tool',
      severity: 'warning',
      ...atRule(definition, rule, path),
      message: 'It allows every tool, including tools that are registered later.',
      fix: 'Name the tools in applies_to.tools or with a condition on tool.name.',
    },
  ];
}
