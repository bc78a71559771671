import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';
import { readArguments, refund } from './refund.ts';

const { port, path } = readArguments();

function newServer(): McpServer {
  const server = new McpServer({ name: 'payments', version: '1.0.0' });
  server.registerTool('refund', { inputSchema: { amount: z.number() } }, ({ amount }) =>
    refund(path, amount),
  );
  return server;
}

type Transport = Parameters<McpServer['connect']>[0];

if (port === undefined) await newServer().connect(new StdioServerTransport());
else {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  createServer(async (req, res) => {
    const known = sessions.get(String(req.headers['mcp-session-id']));
    if (known !== undefined) return known.handleRequest(req, res);
    const opened = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, opened),
    });
    await newServer().connect(opened as Transport);
    return opened.handleRequest(req, res);
  }).listen(port, '127.0.0.1');
}
