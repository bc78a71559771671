import { fetch, ProxyAgent } from 'undici';

interface AgentAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

/** An agent: plain requests through the sidecar's proxy. */
export interface AgentClient {
  post(url: string, body: unknown, headers?: Record<string, string>): Promise<AgentAnswer>;
  close(): Promise<void>;
}

export function agentClient(proxyUrl: string): AgentClient {
  const dispatcher = new ProxyAgent({ uri: proxyUrl, proxyTunnel: false });
  return {
    async post(url, body, headers = {}) {
      const response = await fetch(url, {
        method: 'POST',
        dispatcher,
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
      const text = await response.text();
      return {
        status: response.status,
        body: parseBody(text),
        headers: response.headers as unknown as Headers,
      };
    },
    close: () => dispatcher.close(),
  };
}

function parseBody(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
