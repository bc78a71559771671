import { RE2JS } from 're2js';
import type { JsonValue } from '../../../shared/base/json.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
  PolicyRule,
  RuleDecision,
} from '../../../shared/policy/language/definition.ts';
import type { PublishedPolicy } from '../../../shared/policy/language/published-policy.ts';

/**
 * A second implementation of the policy language, as simple as possible and independent of the
 * product's code. It evaluates every rule of every policy in turn, without an index or compilation.
 * It is slow, but easy to compare with the design. The compiled form must always agree with it.
 */
interface Interpretation {
  readonly decision: string;
  readonly reason: string;
  readonly matched: readonly string[];
  readonly observed: readonly string[];
}

interface Match {
  readonly label: string;
  readonly mode: string;
  readonly decision: string;
  readonly reason: string;
}

const outcomes: Readonly<Record<RuleDecision, string>> = {
  allow: 'allow',
  warn: 'warn',
  require_approval: 'require_approval',
  require_tool_reapproval: 'require_tool_reapproval',
  deny: 'deny',
  require_reauth: 'deny',
  require_policy_update: 'deny',
  dry_run: 'deny',
};
const mostRestrictiveFirst = [
  'deny',
  'require_tool_reapproval',
  'require_approval',
  'warn',
  'allow',
];

export function interpret(
  policies: readonly PublishedPolicy[],
  context: PolicyContext,
): Interpretation {
  const matches = [...policies]
    .sort((one, other) => one.id - other.id)
    .flatMap(({ definition }) => matchesOf(definition, context));
  const deciding = matches.filter(({ mode }) => mode === 'enforce' || mode === 'strict');
  const warnings = matches.filter(
    ({ mode, decision }) => mode === 'warn' && decision !== 'allow' && decision !== 'warn',
  );
  const top = firstMostRestrictive(deciding);
  const warning = top?.decision === 'allow' ? firstMostRestrictive(warnings) : undefined;
  const counted = matches.filter(
    (match) =>
      top !== undefined &&
      (deciding.includes(match) || (warning !== undefined && warnings.includes(match))),
  );
  return {
    decision: warning ? 'warn' : (top?.decision ?? 'deny'),
    reason: warning?.reason ?? top?.reason ?? 'policy.no_match',
    matched: counted.map(({ label }) => label),
    observed: matches.filter((match) => !counted.includes(match)).map(({ label }) => label),
  };
}

function firstMostRestrictive(matches: readonly Match[]): Match | undefined {
  for (const decision of mostRestrictiveFirst) {
    const match = matches.find((candidate) => candidate.decision === decision);
    if (match) return match;
  }
  return undefined;
}

function matchesOf(policy: PolicyDefinition, context: PolicyContext): Match[] {
  const inScope =
    isListed(policy.applies_to?.tools, read(context, 'tool.name')) &&
    isListed(policy.applies_to?.agents, read(context, 'agent.id'));
  if (!inScope) return [];
  return policy.rules
    .filter((rule) => ruleMatches(rule, context))
    .map((rule) => ({
      label: `${policy.id}/${rule.name}`,
      mode: policy.mode ?? 'enforce',
      decision: outcomes[rule.decision],
      reason: rule.reason,
    }));
}

function isListed(list: readonly string[] | undefined, value: JsonValue | undefined): boolean {
  if (list === undefined || list.length === 0 || list.includes('*')) return true;
  return typeof value === 'string' && list.some((entry) => fits(entry, value));
}

/**
 * Returns whether a glob matches: `*` stands for one or more characters except dots, `**` for one
 * or more characters of any kind.
 */
function fits(glob: string, text: string): boolean {
  if (glob === '') return text === '';
  if (!glob.startsWith('*')) return text[0] === glob[0] && fits(glob.slice(1), text.slice(1));
  const stars = glob.startsWith('**') ? 2 : 1;
  for (let eaten = 1; eaten <= text.length; eaten += 1) {
    if (stars === 1 && text[eaten - 1] === '.') return false;
    if (fits(glob.slice(stars), text.slice(eaten))) return true;
  }
  return false;
}

function ruleMatches(rule: PolicyRule, context: PolicyContext): boolean {
  const permits = rule.decision === 'allow' || rule.decision === 'warn';
  const holds = (condition: PolicyCondition) => conditionHolds(condition, context, permits);
  return 'all' in rule.when ? rule.when.all.every(holds) : rule.when.any.some(holds);
}

function conditionHolds(
  { path, operator, value }: PolicyCondition,
  context: PolicyContext,
  permits: boolean,
): boolean {
  const left = read(context, path);
  const right = isRef(value) ? read(context, value.$ref) : value;
  const negative = operator === '!=' || operator === 'not_in';
  if (left === undefined || right === undefined) return negative && !permits;
  switch (operator) {
    case '==':
      return isEqual(left, right);
    case '!=':
      return isUnequal(left, right, permits);
    case 'in':
      return Array.isArray(right) && right.some((item) => isEqual(left, item));
    case 'not_in':
      if (Array.isArray(right)) return right.every((item) => isUnequal(left, item, permits));
      return kind(left) === 'object' ? false : !permits;
    case 'contains':
      if (typeof left === 'string') return typeof right === 'string' && left.includes(right);
      return Array.isArray(left) && left.some((item) => isEqual(item, right));
    case 'matches':
      return typeof left === 'string' && RE2JS.compile(String(right)).matcher(left).find();
    default:
      if (permits && (hasExponent(left) || (isRef(value) && hasExponent(right)))) return false;
      return isOrdered(operator, left, right);
  }
}

function isRef(value: JsonValue): value is { $ref: string } {
  return kind(value) === 'object';
}

function isOrdered(operator: string, left: JsonValue, right: JsonValue): boolean {
  const [one, other] = [asNumber(left), asNumber(right)];
  if (one === undefined || other === undefined) return false;
  if (operator === '>') return one > other;
  if (operator === '>=') return one >= other;
  if (operator === '<') return one < other;
  return one <= other;
}

function hasExponent(value: JsonValue): boolean {
  return typeof value === 'string' && /e/i.test(value);
}

function asNumber(value: JsonValue): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || !/^[-+.eE0-9\s]+$/.test(value)) return undefined;
  return value.trim() === '' || Number.isNaN(Number(value)) ? undefined : Number(value);
}

function kind(value: JsonValue): 'array' | 'object' | 'primitive' {
  if (Array.isArray(value)) return 'array';
  return typeof value === 'object' && value !== null ? 'object' : 'primitive';
}

function isEqual(one: JsonValue, other: JsonValue): boolean {
  return canonicalJson(one) === canonicalJson(other);
}

function isUnequal(left: JsonValue, right: JsonValue, permits: boolean): boolean {
  const [one, other] = [kind(left), kind(right)];
  if (one === 'object' && other === 'primitive') return false;
  if ((one === 'primitive') !== (other === 'primitive')) return !permits;
  return !isEqual(left, right);
}

function read(context: PolicyContext, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = context;
  // In the path of a sum, everything after `sum_24h.` is the name of the sum.
  const [, summed] = /^usage\.sum_24h\.(.*)$/.exec(path) ?? [];
  for (const segment of summed ? ['usage', 'sum_24h', summed] : path.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.getOwnPropertyDescriptor(value, segment)?.value;
  }
  return value;
}
