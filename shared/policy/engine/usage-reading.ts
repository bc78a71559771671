import type { Mode } from '../../vocabulary/action.ts';
import { type CompiledCondition, compileCondition, refPath } from '../language/condition.ts';
import type { PolicyContext } from '../language/context.ts';
import type { PolicyCondition, PolicyDefinition, PolicyRule } from '../language/definition.ts';
import { compileScope } from '../language/scope.ts';
import { permits } from '../language/severity.ts';
import { isUsagePath, summedPath } from '../language/usage-path.ts';

/** How a rule depends on the agent's past usage. */
export interface UsageReading {
  /** Paths below `args` whose sums the rule reads. */
  readonly sums: readonly string[];
  /** True if the rule's policy takes part in decisions; false if it only observes or warns. */
  readonly decides: boolean;
  /** True if the rule may match a call by this agent to this tool. */
  readonly concerns: (tool: string, agentId: string) => boolean;
  /** True if past usage can change whether the rule matches this context. */
  readonly dependsIn: (context: PolicyContext) => boolean;
}

/** Returns how a rule depends on past usage; undefined for a rule that does not read past usage. */
export function usageReading(
  definition: PolicyDefinition,
  rule: PolicyRule,
): UsageReading | undefined {
  const isAll = 'all' in rule.when;
  const conditions = 'all' in rule.when ? rule.when.all : rule.when.any;
  const read = conditions.flatMap(usagePathsOf);
  if (read.length === 0) return undefined;
  const scope = compileScope(definition);
  const others = conditions
    .filter((condition) => usagePathsOf(condition).length === 0)
    .map((condition) => ({
      condition,
      compiled: compileCondition(condition, permits(rule.decision)),
    }));
  const aboutCaller = isAll ? others.filter(({ condition }) => isAboutCaller(condition)) : [];
  const holds = (context: PolicyContext) => (one: { readonly compiled: CompiledCondition }) =>
    one.compiled.holds(context);
  const { mode = 'enforce' } = definition;
  return {
    sums: [...new Set(read.flatMap((path) => summedPath(path) ?? []))],
    decides: isDeciding(mode),
    concerns(tool, agentId) {
      const caller = { tool: { name: tool }, agent: { id: agentId } };
      return scope.every((part) => part.holds(caller)) && aboutCaller.every(holds(caller));
    },
    dependsIn: (context) =>
      scope.every((part) => part.holds(context)) &&
      (isAll ? others.every(holds(context)) : !others.some(holds(context))),
  };
}

function usagePathsOf({ path, value }: PolicyCondition): string[] {
  return [path, refPath(value)].filter((one) => one !== undefined && isUsagePath(one)) as string[];
}

/** True for a condition that depends only on the names of tool and agent. */
function isAboutCaller({ path, value }: PolicyCondition): boolean {
  return (path === 'tool.name' || path === 'agent.id') && refPath(value) === undefined;
}

function isDeciding(mode: Mode): boolean {
  return mode === 'enforce' || mode === 'strict';
}
