/** The request that is sent repeatedly through a proxy. */
export interface Workload {
  readonly name: string;
  /** True for TLS that the proxy intercepts. */
  readonly secure: boolean;
  /**
   * The path of the request through the sidecar. The upstream counts the requests for each path.
   */
  readonly path: string;
  /** The path of the same request through the other proxies. */
  readonly barePath: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  readonly answerIncludes: string;
  /** Measures proxies other than the bare one, too. */
  readonly withPeers: boolean;
}

const text = 'x'.repeat(1_000);

export const benchPath = '/bench';
export const mcpPath = '/mcp';

const rest = {
  path: benchPath,
  barePath: '/bare',
  body: JSON.stringify({ amount: 5, text }),
  answerIncludes: JSON.stringify({ ok: true, text }),
  withPeers: true,
};

export const plainHttp: Workload = { ...rest, name: 'plain HTTP', secure: false };
export const intercepted: Workload = { ...rest, name: 'HTTPS intercepted', secure: true };
export const mcpCalls: Workload = {
  name: 'MCP tools/call',
  secure: false,
  path: mcpPath,
  barePath: '/bare/mcp',
  headers: {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
    'mcp-session-id': 'bench',
  },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'pay', arguments: { amount: 5, text } },
  }),
  answerIncludes: JSON.stringify({ content: [{ type: 'text', text }] }),
  withPeers: false,
};
