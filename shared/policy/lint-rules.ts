import { clausesOf, conditionTest } from './clause.ts';
import { refPath } from './condition.ts';
import { fieldAt } from './context-fields.ts';
import type { PolicyCondition, PolicyDefinition, PolicyRule } from './definition.ts';
import type { LintFinding } from './lint-finding.ts';
import { isSatisfiable } from './reasoning.ts';
import { isPrimitive } from './relations.ts';
import { groupConditions, ruleLabel } from './rule.ts';
import { permits } from './severity.ts';

const placeholder = /^\W*(todo|tbd|fixme|none|null|n\/?a|unknown|reason|x+)?\W*$/i;

/** What can be said of each rule by itself. */
export function lintRules(definition: PolicyDefinition): readonly LintFinding[] {
  return definition.rules.flatMap((rule, index) => {
    const at = { definition, rule, path: `rules[${index}]` };
    const conditions = conditionFindings(at);
    const neverMatches = conditions.some(({ kind }) => kind === 'never_matches');
    return [...reasonFindings(at), ...conditions, ...(neverMatches ? [] : rangeFindings(at))];
  });
}

interface Place {
  readonly definition: PolicyDefinition;
  readonly rule: PolicyRule;
  readonly path: string;
}

function reasonFindings({ definition, rule, path }: Place): readonly LintFinding[] {
  if (!placeholder.test(rule.reason) && rule.reason !== rule.decision) return [];
  return [
    {
      kind: 'missing_reason',
      severity: 'warning',
      rule: ruleLabel(definition, rule),
      path: `${path}.reason`,
      reason: `"${rule.reason}" tells the agent and the ledger nothing.`,
      fix: 'Give a code of your own that says why, such as refund.out_of_policy.',
    },
  ];
}

function conditionFindings({ definition, rule, path }: Place): readonly LintFinding[] {
  const { quantifier, conditions } = groupConditions(rule.when);
  return conditions.flatMap((condition, index): readonly LintFinding[] => {
    const at = {
      severity: 'warning',
      rule: ruleLabel(definition, rule),
      path: `${path}.when.${quantifier}[${index}]`,
    } as const;
    const futile = whyNever(condition, permits(rule.decision)) ?? whyUnknown(condition);
    if (futile) return [{ kind: 'never_matches', ...at, ...futile }];
    if (!restsOnDifference(condition, rule)) return [];
    return [{ kind: 'permits_by_difference', ...at, ...whyDifference(condition) }];
  });
}

interface Explanation {
  readonly reason: string;
  readonly fix: string;
}

/** Why no context makes the condition true; undefined when one might. */
function whyNever(condition: PolicyCondition, rulePermits: boolean): Explanation | undefined {
  const { path, operator, value } = condition;
  const { values } = conditionTest(condition, rulePermits);
  if (values?.length === 0) {
    return operator === 'in'
      ? { reason: 'Nothing is in an empty list.', fix: 'List the values that are meant.' }
      : {
          reason: `${operator} compares numbers, and ${JSON.stringify(value)} is none.`,
          fix: 'Compare with a number.',
        };
  }
  const field = fieldAt(path);
  if (field?.kind === 'object' && refPath(value) === undefined && comparesPrimitives(condition)) {
    return {
      reason: `${path} is an object, which never matches a primitive.`,
      fix: path === 'tool' ? 'Use tool.name.' : 'Name the field of it that is meant.',
    };
  }
  const { words } = field?.kind === 'text' ? field : {};
  if (field?.kind !== 'text' || values === undefined) return undefined;
  const possible = values.some((one) => typeof one === 'string' && (words?.includes(one) ?? true));
  return possible
    ? undefined
    : {
        reason: `${path} is ${words ? `one of ${words.join(', ')}` : 'a string'}, never ${JSON.stringify(value)}.`,
        fix: 'Compare with a value that it can have.',
      };
}

function comparesPrimitives({ operator, value }: PolicyCondition): boolean {
  if (isPrimitive(value)) return true;
  if (operator !== 'in' && operator !== 'not_in') return false;
  return Array.isArray(value) && value.some(isPrimitive);
}

/** A path that no context has is most likely misspelt. */
function whyUnknown({ path, value }: PolicyCondition): Explanation | undefined {
  const unknown = [path, refPath(value)].find((one) => one !== undefined && !fieldAt(one));
  if (unknown === undefined) return undefined;
  return {
    reason: `No context has ${unknown}: the condition does not depend on the call.`,
    fix: /^tool(_|-)?name$/i.test(unknown) ? 'Use tool.name.' : 'Correct the path.',
  };
}

/** An allow that rests on what an optional value is not. */
function restsOnDifference({ path, operator }: PolicyCondition, { decision }: PolicyRule): boolean {
  if (decision !== 'allow' || (operator !== '!=' && operator !== 'not_in')) return false;
  const field = fieldAt(path);
  return !(field?.kind === 'text' && field.always);
}

function whyDifference({ path }: PolicyCondition): Explanation {
  return {
    reason: `The rule allows whatever ${path} is not; where ${path} is absent it does not match at all.`,
    fix: 'List what is allowed with == or in, or deny the exceptions in a rule of their own.',
  };
}

/** Conditions that are possible one by one and impossible together. */
function rangeFindings({ definition, rule, path }: Place): readonly LintFinding[] {
  if (clausesOf(definition, rule).some(isSatisfiable)) return [];
  return [
    {
      kind: 'never_matches',
      severity: 'warning',
      rule: ruleLabel(definition, rule),
      path: `${path}.when`,
      reason: 'The conditions, with applies_to, exclude each other.',
      fix: 'Widen the ranges or lists until one value satisfies all of them.',
    },
  ];
}
