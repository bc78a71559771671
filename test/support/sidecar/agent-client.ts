import { fetch, ProxyAgent, type Response } from 'undici';

interface AgentAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly headers: Headers;
}

/** An agent that sends plain requests through the sidecar's proxy. */
export interface AgentClient {
  get(url: string): Promise<AgentAnswer>;
  post(url: string, body: unknown, headers?: Record<string, string>): Promise<AgentAnswer>;
  close(): Promise<void>;
}

export function agentClient(proxyUrl: string): AgentClient {
  const dispatcher = new ProxyAgent({ uri: proxyUrl, proxyTunnel: false });
  return {
    get: async (url) => answerOf(await fetch(url, { dispatcher })),
    async post(url, body, headers = {}) {
      const response = await fetch(url, {
        method: 'POST',
        dispatcher,
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      });
      return answerOf(response);
    },
    close: () => dispatcher.close(),
  };
}

async function answerOf(response: Response): Promise<AgentAnswer> {
  const { status, headers } = response;
  return { status, headers: headers as unknown as Headers, body: parseBody(await response.text()) };
}

function parseBody(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { text };
  }
}
