import { answerLines } from './lines.ts';

/** The methods that both major versions of the official client have. */
interface McpClient {
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>;
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

/** The command of a server that uses standard input and output. */
export interface StdioCommand {
  readonly command: string;
  readonly args: string[];
  readonly env: Record<string, string>;
}

/**
 * Reads lines, separated by tabs: `connect TARGET` (a URL, or a command as JSON) prints the tools,
 * `call TOOL ARGUMENTS` prints the result, and `close` disconnects.
 */
export async function answerTools(
  connect: (target: URL | StdioCommand) => Promise<McpClient>,
): Promise<void> {
  let client: McpClient | undefined;
  await answerLines(async ([what, target = '', args = '{}']) => {
    if (what === 'connect') {
      client = await connect(
        target.startsWith('{') ? (JSON.parse(target) as StdioCommand) : new URL(target),
      );
      const { tools } = await client.listTools();
      return JSON.stringify(tools.map(({ name }) => name));
    }
    if (what === 'close') {
      await client?.close();
      return '';
    }
    const call = { name: target, arguments: JSON.parse(args) as Record<string, unknown> };
    return JSON.stringify(await client?.callTool(call));
  });
  process.exit(0);
}
