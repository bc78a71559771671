import { matchesAnyGlob } from '../../glob/glob.ts';
import { compileCondition, type Requirement } from './condition.ts';
import type { PolicyDefinition } from './definition.ts';
import { compilePath } from './path.ts';

/**
 * What `applies_to` asks of a context: each list that is set and not empty must contain the
 * context's tool, or its agent's id. Tools may be globs; of agents, only a lone `*` stands for
 * others, and it stands for everyone.
 */
export function compileScope({
  applies_to,
}: Pick<PolicyDefinition, 'applies_to'>): readonly Requirement[] {
  return [...toolScope(applies_to?.tools), ...agentScope(applies_to?.agents)];
}

/** True for an entry that stands for more than the tool of that name. */
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
