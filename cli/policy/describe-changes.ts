import { isJsonObject, type JsonValue } from '../../shared/base/json.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { groupConditions } from '../../shared/policy/engine/rule.ts';
import type {
  ConditionGroup,
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
  RuleApproval,
} from '../../shared/policy/language/definition.ts';

/** One difference, in words. */
export interface PolicyChange {
  readonly kind:
    | 'rule_added'
    | 'rule_removed'
    | 'rule_renamed'
    | 'rule_changed'
    | 'rules_reordered'
    | 'field_changed';
  /** The rule's current name, or its former name if it was removed. */
  readonly rule?: string | undefined;
  readonly text: string;
}

/** The differences of two definitions, rule by rule; empty only if the definitions are the same. */
export function describeChanges(
  before: PolicyDefinition,
  after: PolicyDefinition,
): readonly PolicyChange[] {
  const changes = [...fieldChanges(before, after), ...changesOfRules(before.rules, after.rules)];
  return changes.length > 0 || isSame(before, after)
    ? changes
    : [field('notation changed, meaning unchanged')];
}

function fieldChanges(before: PolicyDefinition, after: PolicyDefinition): readonly PolicyChange[] {
  const fields: readonly (readonly [string, JsonValue | undefined, JsonValue | undefined])[] = [
    ['id', before.id, after.id],
    ['version', before.version, after.version],
    ['description', before.description, after.description],
    ['mode', before.mode, after.mode],
  ];
  return [
    ...fields.flatMap(([name, was, is]) =>
      was === is ? [] : [field(`${name}: ${valueWords(was)} → ${valueWords(is)}`)],
    ),
    ...(['tools', 'agents'] as const).flatMap((name) =>
      listChange(`applies_to.${name}`, before.applies_to?.[name], after.applies_to?.[name]),
    ),
  ];
}

function listChange(
  name: string,
  was: readonly string[] | undefined,
  is: readonly string[] | undefined,
): readonly PolicyChange[] {
  if (isSame(was, is)) return [];
  if (was === undefined || is === undefined) {
    const words = (list: readonly string[] | undefined) => list?.join(', ') ?? 'any';
    return [field(`${name}: ${words(was)} → ${words(is)}`)];
  }
  const changes = [
    ...is.filter((one) => !was.includes(one)).map((one) => `+ ${one}`),
    ...was.filter((one) => !is.includes(one)).map((one) => `- ${one}`),
  ];
  return [field(`${name}: ${changes.join(', ') || 'order changed'}`)];
}

function field(text: string): PolicyChange {
  return { kind: 'field_changed', text };
}

function changesOfRules(
  before: readonly PolicyRule[],
  after: readonly PolicyRule[],
): readonly PolicyChange[] {
  const formerNames = new Set(before.map(({ name }) => name));
  const names = new Set(after.map(({ name }) => name));
  const removed = before.filter(({ name }) => !names.has(name));
  const changes = after.flatMap((rule): readonly PolicyChange[] => {
    const former = before.find(({ name }) => name === rule.name);
    if (former !== undefined) {
      return ruleChanges(former, rule).map((text) => changed('rule_changed', rule, text));
    }
    const twin = removed.findIndex((other) => isSame({ ...other, name: rule.name }, rule));
    const [renamed] = twin === -1 ? [] : removed.splice(twin, 1);
    return renamed === undefined
      ? [changed('rule_added', rule, describeRule(rule))]
      : [changed('rule_renamed', rule, `renamed from "${renamed.name}"`)];
  });
  const order = (rules: readonly PolicyRule[], others: ReadonlySet<string>) =>
    rules.map(({ name }) => name).filter((name) => others.has(name));
  return [
    ...changes,
    ...removed.map((rule) => changed('rule_removed', rule, describeRule(rule))),
    ...(isSame(order(before, names), order(after, formerNames)) ? [] : [reordered]),
  ];
}

/** The order matters: of several equally strict rules, the first one supplies the reason. */
const reordered: PolicyChange = {
  kind: 'rules_reordered',
  text: 'rule order changed: the first of equally strict rules gives the reason',
};

function changed(kind: PolicyChange['kind'], { name }: PolicyRule, text: string): PolicyChange {
  return { kind, rule: name, text };
}

/**
 * The differences of two versions of a rule, one line each; empty only if the versions are the
 * same.
 */
function ruleChanges(before: PolicyRule, after: PolicyRule): readonly string[] {
  const changes = [...plainChanges(before, after), ...conditionChanges(before, after)];
  return changes.length > 0 || isSame(before, after)
    ? changes
    : ['order or notation of conditions changed, meaning unchanged'];
}

/** Compares JSON values, regardless of the order of members. */
function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson({ value: one }) === canonicalJson({ value: other });
}

function plainChanges(before: PolicyRule, after: PolicyRule): readonly string[] {
  const terms = ['channel', 'min_role', 'quorum', 'sla_seconds', 'grant'] as const;
  const pairs: readonly (readonly [string, JsonValue | undefined, JsonValue | undefined])[] = [
    ['decision', before.decision, after.decision],
    ['reason', before.reason, after.reason],
    ...terms.map(
      (name) => [`approval.${name}`, termOf(before, name), termOf(after, name)] as const,
    ),
  ];
  return pairs.flatMap(([name, was, is]) =>
    isSame(was, is) ? [] : [`${name}: ${valueWords(was)} → ${valueWords(is)}`],
  );
}

function termOf({ approval }: PolicyRule, name: keyof NonNullable<PolicyRule['approval']>) {
  const term = approval?.[name];
  return typeof term === 'object' ? { ...term } : term;
}

function conditionChanges(before: PolicyRule, after: PolicyRule): readonly string[] {
  const [was, is] = [groupConditions(before.when), groupConditions(after.when)];
  const lost = without(was.conditions, is.conditions);
  const added = without(is.conditions, was.conditions);
  const turned = lost.flatMap((one) => {
    const now = only(added.filter((other) => isAbout(other, one)));
    const then = only(lost.filter((other) => isAbout(other, one)));
    return now === undefined || then === undefined ? [] : [{ one, now }];
  });
  return [
    ...(was.quantifier === is.quantifier
      ? []
      : [`conditions: ${was.quantifier} → ${is.quantifier}`]),
    ...turned.map(({ one, now }) => `${conditionWords(one)} → ${valueWords(now.value)}`),
    ...added
      .filter((condition) => !turned.some(({ now }) => now === condition))
      .map((condition) => `+ ${conditionWords(condition)}`),
    ...lost
      .filter((condition) => !turned.some(({ one }) => one === condition))
      .map((condition) => `- ${conditionWords(condition)}`),
  ];
}

function without(
  conditions: readonly PolicyCondition[],
  others: readonly PolicyCondition[],
): readonly PolicyCondition[] {
  return conditions.filter((one) => !others.some((other) => isSame(one, other)));
}

function isAbout(one: PolicyCondition, other: PolicyCondition): boolean {
  return one.path === other.path && one.operator === other.operator;
}

function only<Item>(items: readonly Item[]): Item | undefined {
  return items.length === 1 ? items[0] : undefined;
}

/** A rule in one line. */
export function describeRule({ decision, reason, approval, when }: PolicyRule): string {
  const terms = approval === undefined ? '' : `, approval ${approvalWords(approval)}`;
  return `${decision} (${reason}) when ${groupWords(when)}${terms}`;
}

function conditionWords({ path, operator, value }: PolicyCondition): string {
  return `${path} ${operator} ${valueWords(value)}`;
}

function groupWords(group: ConditionGroup): string {
  const { quantifier, conditions } = groupConditions(group);
  return conditions.map(conditionWords).join(quantifier === 'all' ? ' and ' : ' or ');
}

/** Formats a value as JSON, and a reference to a path without quotes. */
function valueWords(value: JsonValue | undefined): string {
  if (value === undefined) return 'none';
  if (isJsonObject(value) && typeof value.$ref === 'string') return value.$ref;
  return JSON.stringify(value);
}

function approvalWords(approval: RuleApproval): string {
  return Object.entries(approval)
    .map(([name, value]) => `${name} ${valueWords(value)}`)
    .join(', ');
}
