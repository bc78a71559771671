import type { JsonValue } from '../../shared/base/json.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { groupConditions } from '../../shared/policy/engine/rule.ts';
import type { PolicyCondition, PolicyRule } from '../../shared/policy/language/definition.ts';
import { conditionWords, valueWords } from './rule-words.ts';

/** What a rule says otherwise than before, a line each; empty only when it is the same. */
export function ruleChanges(before: PolicyRule, after: PolicyRule): readonly string[] {
  const changes = [...plainChanges(before, after), ...conditionChanges(before, after)];
  return changes.length > 0 || isSame(before, after)
    ? changes
    : ['the same, with its conditions in another order or written in another way'];
}

/** Equal as JSON, in whatever order members stand. */
export function isSame(one: unknown, other: unknown): boolean {
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
      : [`needs ${is.quantifier} of its conditions, was ${was.quantifier}`]),
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
