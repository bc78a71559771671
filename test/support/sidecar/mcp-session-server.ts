import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

export const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

/** A server of the earlier revisions, built with the official SDK 1.x. */
export interface SessionServer {
  readonly http: Server;
  readonly sessions: ReadonlyMap<string, StreamableHTTPServerTransport>;
  /** The events that occurred, in order. */
  readonly seen: readonly string[];
}

export function sessionServer(): SessionServer {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const seen: string[] = [];
  const http = createServer(async (req, res) => {
    seen.push(`${req.method} ${req.headers['mcp-session-id'] === undefined ? 'bare' : 'session'}`);
    const known = sessions.get(String(req.headers['mcp-session-id']));
    if (known !== undefined) return known.handleRequest(req, res);
    const fresh: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, fresh),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await makeServer(seen).connect(fresh as Parameters<McpServer['connect']>[0]);
    return fresh.handleRequest(req, res);
  });
  return { http, sessions, seen };
}

function makeServer(seen: string[]): McpServer {
  const server = new McpServer(
    { name: 'crm', version: '1.0.0' },
    { capabilities: { logging: {}, tools: { listChanged: true } } },
  );
  server.registerTool('find', { inputSchema: { who: z.string() } }, ({ who }) => text(who));
  server.registerTool('find-denied', {}, () => text('never'));
  server.registerTool('report-denied', { outputSchema: { total: z.number() } }, () => ({
    ...text('1'),
    structuredContent: { total: 1 },
  }));
  server.registerTool('slow', {}, async ({ signal, sendNotification, _meta }) => {
    const progressToken = _meta?.progressToken ?? 0;
    await sendNotification({
      method: 'notifications/progress',
      params: { progressToken, progress: 1, total: 2 },
    });
    seen.push('slow began');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    seen.push('slow was cancelled');
    return text('cancelled');
  });
  // On the GET stream, the server sends messages that belong to no request.
  server.registerTool('talk', {}, async () => {
    server.sendToolListChanged();
    await server.sendLoggingMessage({ level: 'info', data: 'by the stream' });
    const sampled = await server.server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: 'Hello?' } }],
      maxTokens: 10,
    });
    const { action } = await server.server.elicitInput({
      message: 'Sure?',
      requestedSchema: { type: 'object', properties: { ok: { type: 'boolean' } } },
    });
    const { roots } = await server.server.listRoots();
    return text(JSON.stringify({ sampled: sampled.model, action, root: roots[0]?.uri }));
  });
  server.registerPrompt('greet', {}, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'Greet.' } }],
  }));
  server.registerResource('note', 'note://1', {}, () => ({
    contents: [{ uri: 'note://1', text: 'A note.' }],
  }));
  return server;
}
