import type { JsonValue } from '../../../shared/base/json.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
} from '../../../shared/policy/language/definition.ts';

/**
 * A straightforward interpreter: tries all rules, reads every path each time, collects the matching
 * rules and uses the most restrictive one. Supports only the operators of the benchmark's policies.
 */
export function interpretPolicy(definition: PolicyDefinition, context: PolicyContext): string {
  let reason = 'policy.no_match';
  let denied = false;
  for (const rule of definition.rules) {
    const conditions = 'all' in rule.when ? rule.when.all : rule.when.any;
    const matches =
      'all' in rule.when
        ? conditions.every((condition) => holds(condition, context))
        : conditions.some((condition) => holds(condition, context));
    if (!matches || denied) continue;
    reason = rule.reason;
    denied = rule.decision === 'deny';
  }
  return reason;
}

function holds({ path, operator, value }: PolicyCondition, context: PolicyContext): boolean {
  const actual = read(context, path);
  switch (operator) {
    case '==':
      return actual === value;
    case '>=':
      return Number(actual) >= Number(value);
    case 'contains':
      return typeof actual === 'string' && actual.includes(String(value));
    default:
      throw new Error(`the baseline does not know ${operator}`);
  }
}

function read(context: PolicyContext, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = context;
  for (const segment of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, segment)) return;
    value = (value as Record<string, JsonValue | undefined>)[segment];
  }
  return value;
}
