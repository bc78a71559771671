import { editDistance } from '../../shared/base/nearest-name.ts';

interface GivenTool {
  readonly field: string;
  readonly tool: string;
}

const serverOf = /^mcp\.[^.]+\./;
const knownMax = 200;

/**
 * Returns the given ids that belong to tools of MCP servers and are not registered. A binding names
 * only the server, so any tool id of that server counts as bound.
 */
export function toolsOfServers(
  given: readonly { readonly field: string; readonly tools: readonly string[] }[],
  registered: ReadonlySet<string>,
): readonly GivenTool[] {
  return given.flatMap(({ field, tools }) =>
    [...new Set(tools)]
      .filter((tool) => serverOf.test(tool) && !/[*/]/.test(tool) && !registered.has(tool))
      .slice(0, knownMax)
      .map((tool) => ({ field, tool })),
  );
}

/** Warns about ids that differ by one or two letters from a known tool of the same server. */
export function misspeltTools(
  given: readonly GivenTool[],
  known: readonly string[],
): readonly string[] {
  return given.flatMap(({ field, tool }) => {
    const server = serverOf.exec(tool)?.[0] ?? '';
    const tools = known.filter((one) => one.startsWith(server) && !one.includes('*'));
    if (tools.includes(tool)) return [];
    const name = tool.slice(server.length);
    const editsMax = name.length < 7 ? 1 : 2;
    const near = tools
      .slice(0, knownMax)
      .find((one) => editDistance(name, one.slice(server.length)) <= editsMax);
    if (near === undefined) return [];
    return `${field}: "${tool}" is no tool of this MCP server that is registered or was called before; did you mean "${near}"?`;
  });
}
