import { setTimeout as delay } from 'node:timers/promises';

type Answer = Readonly<Record<string, unknown>>;

/**
 * Creates a client of the API. For a failed response, the client throws an error with the
 * response's status and text.
 */
export function createApi({
  origin,
  ownerKey,
}: {
  readonly origin: string;
  readonly ownerKey: string;
}) {
  async function api(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text}`);
    return JSON.parse(text) as Answer;
  }
  return { api, until };
}

/** Polls until `ask` returns a value, for ten seconds at most. */
async function until<Value>(what: string, ask: () => Promise<Value | undefined>): Promise<Value> {
  for (let tries = 0; tries < 200; tries++) {
    const value = await ask();
    if (value !== undefined) return value;
    await delay(50);
  }
  throw new Error(`Timed out after 10 s: ${what}.`);
}
