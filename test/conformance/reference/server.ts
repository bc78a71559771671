import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
} from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { eventStore } from './event-store.ts';
import { registerInputTools, states } from './inputs.ts';
import { registerPrompts, registerResources } from './resources.ts';
import { registerAskingTools, registerPlainTools, registerSpeakingTools } from './tools.ts';

const info = { name: 'reference', version: '1.0.0' };
const lists = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
};

/** A server for the conformance suite that uses the official packages only. */
export function referenceServer(generation: 'sessions' | 'stateless', secret?: string): Server {
  const answer = generation === 'sessions' ? sessions() : stateless();
  const hostIsLocal = localhostHostValidation();
  const originIsLocal = localhostOriginValidation();
  return createServer((req, res) => {
    if (!hostIsLocal(req, res) || !originIsLocal(req, res)) return;
    // Only the sidecar has the secret, so a request that bypassed it is refused.
    if (secret !== undefined && req.headers.authorization !== `Bearer ${secret}`) {
      res.writeHead(401).end();
      return;
    }
    void answer(req, res);
  });
}

type Answer = (req: IncomingMessage, res: ServerResponse) => Promise<unknown>;

/** Earlier revisions: every session has its own server. */
function sessions(): Answer {
  const transports = new Map<string, NodeStreamableHTTPServerTransport>();
  return async (req, res) => {
    const id = req.headers['mcp-session-id'];
    const known = typeof id === 'string' ? transports.get(id) : undefined;
    if (known !== undefined) return known.handleRequest(req, res);
    const fresh = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: eventStore(),
      retryInterval: 500,
      onsessioninitialized: (session) => void transports.set(session, fresh),
      onsessionclosed: (session) => void transports.delete(session),
    });
    if (typeof id === 'string') {
      res.writeHead(404, { 'content-type': 'application/json' });
      return res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"No session"}}');
    }
    await sessionServer().connect(fresh);
    return fresh.handleRequest(req, res);
  };
}

function sessionServer(): McpServer {
  const server = new McpServer(info, { capabilities: { ...lists, logging: {}, completions: {} } });
  registerPlainTools(server);
  registerSpeakingTools(server);
  registerAskingTools(server);
  registerResources(server);
  registerPrompts(server);
  server.server.setRequestHandler('resources/subscribe', () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', () => ({}));
  return server;
}

function stateless(): Answer {
  const handler = createMcpHandler(
    () => {
      const server = new McpServer(info, {
        capabilities: { ...lists, logging: {}, completions: {} },
        requestState: { verify: states.verify },
      });
      registerPlainTools(server);
      registerSpeakingTools(server);
      registerInputTools(server);
      registerResources(server);
      registerPrompts(server);
      const notify = (name: string, tell: () => unknown) =>
        server.registerTool(name, { description: name }, () => {
          tell();
          return { content: [{ type: 'text', text: 'told' }] };
        });
      notify('test_trigger_tool_change', () => handler.notify.toolsChanged());
      notify('test_trigger_prompt_change', () => handler.notify.promptsChanged());
      return server;
    },
    { legacy: 'reject' },
  );
  const answer = toNodeHandler(handler);
  return async (req, res) => answer(req as Parameters<typeof answer>[0], res);
}
