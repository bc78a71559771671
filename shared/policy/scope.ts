import { compileCondition, type Requirement } from './condition.ts';
import type { PolicyDefinition } from './definition.ts';
import { compilePath } from './path.ts';
import { compilePattern } from './pattern.ts';

const everything = '*';

/**
 * What `applies_to` asks of a context: each list that is set and not empty must contain the
 * context's tool, or its agent's id. Tools may be globs; of agents, a lone `*` is everyone.
 */
export function compileScope({ applies_to }: PolicyDefinition): readonly Requirement[] {
  return [
    ...listed('tool.name', applies_to?.tools, isToolGlob),
    ...listed('agent.id', applies_to?.agents, () => false),
  ];
}

/** True for an entry that stands for more than the tool of that name. */
export function isToolGlob(entry: string): boolean {
  return entry.includes('*');
}

function listed(
  path: string,
  entries: readonly string[] | undefined,
  isGlob: (entry: string) => boolean,
): readonly Requirement[] {
  if (entries === undefined || entries.length === 0 || entries.includes(everything)) return [];
  const exact = entries.filter((entry) => !isGlob(entry));
  const member = compileCondition({ path, operator: 'in', value: exact }, false);
  const globs = entries.filter(isGlob).map(compileGlob);
  if (globs.length === 0) return [member];
  const read = compilePath(path);
  const fitsGlob = (value: unknown) =>
    typeof value === 'string' && globs.some((matches) => matches(value));
  return [{ holds: (context) => member.holds(context) || fitsGlob(read(context)) }];
}

/** `*` is one or more characters within a segment, `**` crosses the dots between segments. */
function compileGlob(glob: string): (tool: string) => boolean {
  const body = glob
    .split(/(\*\*|\*)/)
    .map((part) => {
      if (part === '**') return '.+';
      return part === '*' ? '[^.]+' : part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&');
    })
    .join('');
  return compilePattern(`(?s)^${body}$`).search;
}
