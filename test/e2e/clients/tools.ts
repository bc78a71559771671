import { answerLines } from './lines.ts';

/** What both generations of the official client have in common. */
interface McpClient {
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
}

/** Lines of `connect URL` (prints the tools) and `call TOOL ARGUMENTS` (prints the result); tabs between. */
export async function answerTools(connect: (url: URL) => Promise<McpClient>): Promise<void> {
  let client: McpClient | undefined;
  await answerLines(async ([what, target = '', args = '{}']) => {
    if (what === 'connect') {
      client = await connect(new URL(target));
      const { tools } = await client.listTools();
      return JSON.stringify(tools.map(({ name }) => name));
    }
    const call = { name: target, arguments: JSON.parse(args) as Record<string, unknown> };
    return JSON.stringify(await client?.callTool(call));
  });
  process.exit(0);
}
