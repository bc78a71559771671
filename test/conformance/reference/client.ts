import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

/**
 * A client for the conformance suite that uses the official package only. It lists the tools and calls them
 * with the suite's arguments or default arguments. The last command-line argument is the address of the
 * server; the environment sets the proxy.
 */
async function main(): Promise<void> {
  const url = new URL(process.argv.at(-1) ?? '');
  const version = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '2025-11-25';
  const isStateless = version >= '2026-07-28';
  const client = new Client(
    { name: 'reference', version: '1.0.0' },
    {
      capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
      versionNegotiation: { mode: isStateless ? { pin: version } : 'legacy' },
    },
  );
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }));
  client.setRequestHandler('sampling/createMessage', () => ({
    model: 'm1',
    role: 'assistant',
    content: { type: 'text', text: 'Hello.' },
  }));
  client.setRequestHandler('roots/list', () => ({ roots: [] }));
  await client.connect(new StreamableHTTPClientTransport(url));
  const { tools } = await client.listTools();
  const { toolCalls = tools.map((tool) => plainCall(tool, tools[0]?.inputSchema)) } = JSON.parse(
    process.env.MCP_CONFORMANCE_CONTEXT ?? '{}',
  ) as { toolCalls?: readonly Call[] };
  for (const call of toolCalls) await client.callTool(call).catch(() => {});
  await client.close();
}

interface Call {
  readonly name: string;
  readonly arguments: Record<string, unknown>;
}

/**
 * Returns a call of the tool with a value of the right type for each argument. `object` is the value of
 * arguments that are objects.
 */
function plainCall(
  tool: { readonly name: string; readonly inputSchema: object },
  object: unknown,
): Call {
  const { properties = {} } = tool.inputSchema as {
    properties?: Record<string, { type?: string }>;
  };
  const values: Readonly<Record<string, unknown>> = {
    number: 2,
    integer: 2,
    boolean: true,
    object,
    array: [],
  };
  const args = Object.entries(properties).map(([name, { type = '' }]) => [
    name,
    values[type] ?? 'x',
  ]);
  return { name: tool.name, arguments: Object.fromEntries(args) };
}

await main();
