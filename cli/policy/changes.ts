import type { JsonValue } from '../../shared/base/json.ts';
import type { PolicyDefinition, PolicyRule } from '../../shared/policy/language/definition.ts';
import { isSame, ruleChanges } from './rule-changes.ts';
import { ruleWords, valueWords } from './rule-words.ts';

/** One thing that is different, in words. */
export interface PolicyChange {
  readonly kind:
    | 'rule_added'
    | 'rule_removed'
    | 'rule_renamed'
    | 'rule_changed'
    | 'rules_reordered'
    | 'field_changed';
  /** Its name now; of a removed one, the name it had. */
  readonly rule?: string | undefined;
  readonly text: string;
}

/** What one definition says otherwise than the other, rule by rule; empty only when they are the same. */
export function describeChanges(
  before: PolicyDefinition,
  after: PolicyDefinition,
): readonly PolicyChange[] {
  const changes = [...fieldChanges(before, after), ...changesOfRules(before.rules, after.rules)];
  return changes.length > 0 || isSame(before, after)
    ? changes
    : [field('written in another way, with the same meaning')];
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
  return [field(`${name}: ${changes.join(', ') || 'the same in another order'}`)];
}

function field(text: string): PolicyChange {
  return { kind: 'field_changed', text };
}

function changesOfRules(
  before: readonly PolicyRule[],
  after: readonly PolicyRule[],
): readonly PolicyChange[] {
  const had = new Set(before.map(({ name }) => name));
  const has = new Set(after.map(({ name }) => name));
  const removed = before.filter(({ name }) => !has.has(name));
  const changes = after.flatMap((rule): readonly PolicyChange[] => {
    const former = before.find(({ name }) => name === rule.name);
    if (former !== undefined) {
      return ruleChanges(former, rule).map((text) => changed('rule_changed', rule, text));
    }
    const twin = removed.findIndex((other) => isSame({ ...other, name: rule.name }, rule));
    const [renamed] = twin === -1 ? [] : removed.splice(twin, 1);
    return renamed === undefined
      ? [changed('rule_added', rule, ruleWords(rule))]
      : [changed('rule_renamed', rule, `was called "${renamed.name}"`)];
  });
  const order = (rules: readonly PolicyRule[], others: ReadonlySet<string>) =>
    rules.map(({ name }) => name).filter((name) => others.has(name));
  return [
    ...changes,
    ...removed.map((rule) => changed('rule_removed', rule, ruleWords(rule))),
    ...(isSame(order(before, has), order(after, had)) ? [] : [reordered]),
  ];
}

/** Strictness decides; among equals the first rule stamps its reason. */
const reordered: PolicyChange = {
  kind: 'rules_reordered',
  text: 'rules in another order: of equally strict rules the first gives the reason',
};

function changed(kind: PolicyChange['kind'], { name }: PolicyRule, text: string): PolicyChange {
  return { kind, rule: name, text };
}
