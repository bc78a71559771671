import { groupConditions } from '../engine/rule.ts';
import type { PolicyCondition, PolicyDefinition } from '../language/definition.ts';

/**
 * The tools that a policy names, as ids and globs, with their paths. A `matches` pattern names no
 * tools.
 */
export function toolsNamedBy({
  applies_to,
  rules,
}: PolicyDefinition): readonly { readonly field: string; readonly tools: readonly string[] }[] {
  const scope = { field: 'applies_to.tools', tools: applies_to?.tools ?? [] };
  const conditions = rules.map(({ name, when }) => ({
    field: `rule ${name}`,
    tools: groupConditions(when).conditions.flatMap(toolsOf),
  }));
  return [scope, ...conditions].filter(({ tools }) => tools.length > 0);
}

function toolsOf({ path, operator, value }: PolicyCondition): readonly string[] {
  if (path !== 'tool.name' || (operator !== '==' && operator !== 'in')) return [];
  const values = Array.isArray(value) ? value : [value];
  return values.filter((one) => typeof one === 'string');
}
