import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** One JSON-RPC message, as it was received. */
export interface RawCall {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
}

type Answer = (call: RawCall, res: ServerResponse, req: IncomingMessage) => void;

/**
 * An MCP server whose responses are defined byte for byte by a test. It works for every revision.
 */
export function rawMcpServer(): { readonly http: Server; behave(answer: Answer): void } {
  let behaviour: Answer = (_call, res) => res.writeHead(500).end();
  const http = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      behaviour(body === '' ? {} : (JSON.parse(body) as RawCall), res, req);
    });
  });
  return {
    http,
    behave: (answer) => {
      behaviour = answer;
    },
  };
}

export function json(res: ServerResponse, value: unknown, headers: Record<string, string> = {}) {
  res.writeHead(200, { 'content-type': 'application/json', ...headers });
  res.end(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Responds to the handshake and lists these tools; calls succeed. */
export function listing(tools: () => readonly unknown[]): Answer {
  return ({ id, method, params }, res) => {
    if (id === undefined) return void res.writeHead(method === undefined ? 405 : 202).end();
    const results: Record<string, unknown> = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'raw', version: '1' },
      },
      'tools/list': { tools: tools() },
      'tools/call': { content: [{ type: 'text', text: `performed ${String(params?.name)}` }] },
    };
    json(res, { jsonrpc: '2.0', id, result: results[method ?? ''] ?? {} });
  };
}
