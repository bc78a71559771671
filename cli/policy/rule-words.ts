import { isJsonObject, type JsonValue } from '../../shared/base/json.ts';
import { groupConditions } from '../../shared/policy/engine/rule.ts';
import type {
  ConditionGroup,
  PolicyCondition,
  PolicyRule,
  RuleApproval,
} from '../../shared/policy/language/definition.ts';

/** A rule in one line. */
export function ruleWords({ decision, reason, approval, when }: PolicyRule): string {
  const terms = approval === undefined ? '' : `, approval ${approvalWords(approval)}`;
  return `${decision} (${reason}) when ${groupWords(when)}${terms}`;
}

export function conditionWords({ path, operator, value }: PolicyCondition): string {
  return `${path} ${operator} ${valueWords(value)}`;
}

function groupWords(group: ConditionGroup): string {
  const { quantifier, conditions } = groupConditions(group);
  return conditions.map(conditionWords).join(quantifier === 'all' ? ' and ' : ' or ');
}

/** A path that is compared with stands without quotes, as paths do. */
export function valueWords(value: JsonValue | undefined): string {
  if (value === undefined) return 'none';
  if (isJsonObject(value) && typeof value.$ref === 'string') return value.$ref;
  return JSON.stringify(value);
}

function approvalWords(approval: RuleApproval): string {
  return Object.entries(approval)
    .map(([name, value]) => `${name} ${valueWords(value)}`)
    .join(', ');
}
