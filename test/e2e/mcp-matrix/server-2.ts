import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { readArguments, refund } from './refund.ts';

const { port, path } = readArguments();

function newServer(): McpServer {
  const server = new McpServer({ name: 'payments', version: '1.0.0' });
  const inputSchema = z.object({ amount: z.number() });
  server.registerTool('refund', { inputSchema }, ({ amount }) => refund(path, amount));
  return server;
}

if (port === undefined) serveStdio(newServer);
else {
  const handle = toNodeHandler(createMcpHandler(newServer));
  createServer((req, res) => void handle(req as Parameters<typeof handle>[0], res)).listen(
    port,
    '127.0.0.1',
  );
}
