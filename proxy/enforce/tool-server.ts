/** `mcp.<server>.` of a tool's id: the name of a server has no dot. Empty for any other tool. */
export function serverOf(tool: string): string {
  return /^mcp\.[^.]*\./.exec(tool)?.[0] ?? '';
}
