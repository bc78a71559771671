// An MCP server of customer records, made with the official SDK. It serves until you stop it.
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

function newServer(): McpServer {
  const server = new McpServer({ name: 'crm', version: '1.0.0' });
  server.registerTool(
    'find_customer',
    { description: 'Finds a customer by name.', inputSchema: z.object({ name: z.string() }) },
    ({ name }) => text(`customer c1: ${name}`),
  );
  server.registerTool(
    'export_customers',
    { description: 'Exports customer records.', inputSchema: z.object({ limit: z.number() }) },
    ({ limit }) => text(`exported ${limit} customers`),
  );
  server.registerTool(
    'delete_customer',
    { description: 'Deletes a customer.', inputSchema: z.object({ id: z.string() }) },
    ({ id }) => text(`deleted ${id}`),
  );
  return server;
}

const handle = toNodeHandler(createMcpHandler(newServer));
createServer((req, res) => void handle(req as Parameters<typeof handle>[0], res)).listen(
  9200,
  '127.0.0.1',
);
