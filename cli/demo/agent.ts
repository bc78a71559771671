// The demo's agent: a separate program that knows nothing of Sallyport. It executes the tasks that
// its parent sends, with plain `fetch` and the official MCP client; the proxy and the CA come from
// the usual environment variables.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

/** A task that the parent sends. */
export type AgentTask =
  | {
      readonly kind: 'fetch';
      readonly url: string;
      readonly method: string;
      readonly headers?: Record<string, string>;
      readonly body?: unknown;
    }
  | {
      readonly kind: 'mcp';
      readonly url: string;
      readonly tool: string;
      readonly args: Record<string, unknown>;
    };

export interface AgentAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

async function perform(task: AgentTask): Promise<AgentAnswer> {
  return task.kind === 'fetch' ? performFetch(task) : performMcp(task);
}

async function performFetch(task: AgentTask & { kind: 'fetch' }): Promise<AgentAnswer> {
  const json = task.body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(task.url, {
    method: task.method,
    headers: { ...json, ...task.headers },
    ...(task.body === undefined ? {} : { body: JSON.stringify(task.body) }),
  });
  return {
    status: response.status,
    text: await response.text(),
    headers: Object.fromEntries(response.headers),
  };
}

async function performMcp(task: AgentTask & { kind: 'mcp' }): Promise<AgentAnswer> {
  const client = new Client({ name: 'demo-agent', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(new URL(task.url));
  await client.connect(transport as Parameters<Client['connect']>[0]);
  try {
    const result = await client.callTool({ name: task.tool, arguments: task.args });
    return {
      status: result.isError === true ? 403 : 200,
      text: JSON.stringify(result),
      headers: {},
    };
  } finally {
    await client.close();
  }
}

process.on('message', (message: { readonly id: number; readonly task: AgentTask }) => {
  perform(message.task).then(
    (answer) => process.send?.({ id: message.id, answer }),
    (error: Error) =>
      process.send?.({ id: message.id, error: `${error.message} ${String(error.cause ?? '')}` }),
  );
});
process.send?.({ ready: true });
