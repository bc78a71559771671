import { matchesAnyGlob } from '../../glob/glob.ts';
import { compileCondition, type Requirement } from './condition.ts';
import type { PolicyDefinition } from './definition.ts';
import { compilePath } from './path.ts';

/**
 * Compiles `applies_to`: each non-empty list must contain the context's tool or agent id. Tool
 * entries may be globs. For agents, only a lone `*` is a wildcard.
 */
export function compileScope({
  applies_to,
}: Pick<PolicyDefinition, 'applies_to'>): readonly Requirement[] {
  return [...toolScope(applies_to?.tools), ...agentScope(applies_to?.agents)];
}

/** True for an entry with a wildcard. */
export function isToolGlob(entry: string): boolean {
  return entry.includes('*');
}

function toolScope(tools: readonly string[] = []): readonly Requirement[] {
  if (tools.length === 0 || tools.some((entry) => /^\*+$/.test(entry))) return [];
  const globs = tools.filter(isToolGlob);
  const exact = listed(
    'tool.name',
    tools.filter((entry) => !isToolGlob(entry)),
  );
  if (globs.length === 0) return [exact];
  const read = compilePath('tool.name');
  return [
    {
      holds: (context) => {
        const tool = read(context);
        return (
          exact.holds(context) || (typeof tool === 'string' && matchesAnyGlob(globs, tool, 'tool'))
        );
      },
    },
  ];
}

function agentScope(agents: readonly string[] = []): readonly Requirement[] {
  return agents.length === 0 || agents.includes('*') ? [] : [listed('agent.id', agents)];
}

function listed(path: string, value: readonly string[]): Requirement {
  return compileCondition({ path, operator: 'in', value }, false);
}
