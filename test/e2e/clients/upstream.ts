import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, McpServer as NewMcpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

/** A refund that the upstream performed. */
export interface Performed {
  readonly amount: number;
  readonly how: string;
  readonly authorization: string | undefined;
}

const info = { name: 'payments', version: '1.0.0' };

/**
 * A payments API in three forms: REST at `/v1/refunds`, MCP of 2026-07-28 at `/mcp` and, with
 * sessions, MCP of the earlier revisions at `/sessions/mcp`. It records the performed refunds.
 */
export function paymentsUpstream(performed: Performed[]): RequestListener {
  const stateless = toNodeHandler(
    createMcpHandler(({ requestInfo }) => {
      const authorization = requestInfo?.headers.get('authorization') ?? undefined;
      const server = new NewMcpServer(info);
      addRefund(server as unknown as McpServer, () => authorization, performed);
      return server;
    }),
  );
  const sessions = sessionServer(performed);
  return (req, res) => {
    if (req.url === '/mcp') void stateless(req as Parameters<typeof stateless>[0], res);
    else if (req.url === '/sessions/mcp') void sessions(req, res);
    else void rest(req, res, performed);
  };
}

async function rest(req: IncomingMessage, res: ServerResponse, performed: Performed[]) {
  const { amount } = (await json(req)) as { readonly amount: number };
  performed.push({
    amount,
    how: `${req.method} ${req.url}`,
    authorization: req.headers.authorization,
  });
  res
    .writeHead(200, { 'content-type': 'application/json' })
    .end(JSON.stringify({ refunded: amount }));
}

function addRefund(
  server: Pick<McpServer, 'registerTool'>,
  authorizationOf: (extra: unknown) => string | undefined,
  performed: Performed[],
): void {
  server.registerTool('refund', { inputSchema: { amount: z.number() } }, ({ amount }, extra) => {
    performed.push({ amount, how: 'tools/call', authorization: authorizationOf(extra) });
    return { content: [{ type: 'text', text: `refunded ${amount}` }] };
  });
}

/** Returns a handler for a server with sessions, which refuses unknown session ids. */
function sessionServer(performed: Performed[]) {
  const open = new Map<string, StreamableHTTPServerTransport>();
  return async (req: IncomingMessage, res: ServerResponse) => {
    const known = open.get(String(req.headers['mcp-session-id']));
    if (known !== undefined) return known.handleRequest(req, res);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void open.set(id, transport),
    });
    const server = new McpServer(info);
    addRefund(server, sessionAuthorization, performed);
    await server.connect(transport as Parameters<McpServer['connect']>[0]);
    return transport.handleRequest(req, res);
  };
}

function sessionAuthorization(extra: unknown): string | undefined {
  const { requestInfo } = extra as { requestInfo?: { headers: IncomingMessage['headers'] } };
  return requestInfo?.headers.authorization;
}
