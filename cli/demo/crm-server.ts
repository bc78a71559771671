import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';
import { close, listen } from './upstream-apis.ts';

/**
 * Starts a customer database as an MCP server, built with the official SDK. The server records the
 * executed calls.
 */
export async function startCrmServer(): Promise<{
  readonly port: number;
  readonly performed: readonly string[];
  close(): Promise<void>;
}> {
  const performed: string[] = [];
  const server = createServer((req, res) => {
    void serve(performed).then((transport) => transport.handleRequest(req, res));
  });
  return { port: await listen(server), performed, close: () => close(server) };
}

/** A stateless transport: one server object per request, as the SDK recommends. */
async function serve(performed: string[]): Promise<StreamableHTTPServerTransport> {
  const crm = new McpServer({ name: 'crm', version: '1.0.0' });
  crm.registerTool(
    'lookup_customer',
    { description: 'Finds a customer by id', inputSchema: { customer_id: z.string() } },
    ({ customer_id }) => {
      performed.push(`lookup_customer ${customer_id}`);
      return { content: [{ type: 'text', text: `${customer_id}: Ada Lovelace, gold` }] };
    },
  );
  crm.registerTool(
    'export_customers',
    { description: 'Exports all customers', inputSchema: { recipient: z.string() } },
    ({ recipient }) => {
      performed.push(`export_customers ${recipient}`);
      return { content: [{ type: 'text', text: 'exported' }] };
    },
  );
  const transport = new StreamableHTTPServerTransport({});
  await crm.connect(transport as Parameters<McpServer['connect']>[0]);
  return transport;
}
