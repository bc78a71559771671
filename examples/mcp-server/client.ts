// Lists the tools of the server, or calls one: `sallyport run -- node client.ts [TOOL ARGUMENTS]`.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const holdSeconds = 5;
const approvalSeconds = 3600;
const pollSeconds = 5;

type ToolResult = Awaited<ReturnType<Client['callTool']>>;

/** The decision that the sidecar adds to a result of its own. */
interface Decision {
  readonly decision: 'deny' | 'require_approval';
  readonly reason_code: string;
  readonly approval_request_id?: string;
}

/** Returns the sidecar's decision; undefined if the result comes from the server. */
function decisionOf(result: ToolResult): Decision | undefined {
  if (result.isError !== true) return undefined;
  // A tool with an output schema has no room for the decision in its structured content.
  const found = result._meta?.['internal.sallyport/decision'] ?? result.structuredContent;
  return (found as Decision | undefined)?.decision === undefined ? undefined : (found as Decision);
}

/** Calls a tool, and waits for a human if the policy asks for one. */
async function callTool(client: Client, name: string, args: Record<string, unknown>) {
  for (;;) {
    // Longer than the hold, so that the client does not give up while a human decides.
    const options = { timeout: (holdSeconds + 10) * 1000 };
    const result = await client.callTool({ name, arguments: args }, options);
    const decision = decisionOf(result);
    if (decision?.decision !== 'require_approval') return result;
    await waitForHuman(decision.approval_request_id);
    // Repeats the same call unchanged, because an approval covers nothing else.
  }
}

/**
 * Resolves when the approval is decided. The sidecar itself answers requests to this host; they
 * need no key.
 */
async function waitForHuman(id: string | undefined): Promise<void> {
  console.log(`Waiting for a human: approval ${id}`);
  const giveUpAt = performance.now() + approvalSeconds * 1000;
  while (performance.now() < giveUpAt) {
    const answer = await fetch(`http://sallyport.internal/approvals/${id}`);
    const { status } = (await answer.json()) as { readonly status: string };
    if (status === 'expired') break;
    if (status !== 'pending') return;
    await delay(pollSeconds * 1000);
  }
  throw new Error('No human decided in time. Ask the user before you try again.');
}

const client = new Client({ name: 'agent', version: '1.0.0' });
await client.connect(
  new StreamableHTTPClientTransport(new URL('http://127.0.0.1:9200/mcp'), {
    requestInit: { headers: { prefer: `wait=${holdSeconds}` } },
  }),
);
const [name, args = '{}'] = process.argv.slice(2);
if (name === undefined) {
  const { tools } = await client.listTools();
  for (const tool of tools) console.log(`${tool.name}: ${tool.description}`);
} else {
  const { content } = await callTool(client, name, JSON.parse(args));
  for (const part of content) if (part.type === 'text') console.log(part.text);
}
await client.close();
