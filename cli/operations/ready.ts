import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { SettingsError } from '../../shared/base/settings.ts';

const answerMs = 5_000;
const pauseMs = 500;

/** The bodies of `/readyz`: of a control plane, in brief or in detail, and of a sidecar. */
const readyBody = z.object({
  ready: z.boolean(),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean() })).optional(),
  reasons: z.array(z.string()).optional(),
});

/** `sallyport ready`. Asks again until the program is ready or `waitMs` is over. */
export async function ready(address: string, waitMs = 0): Promise<number> {
  const url = readyUrl(address);
  const deadline = performance.now() + waitMs;
  for (;;) {
    const problem = await problemOf(url);
    if (problem === undefined) {
      console.log(`${url.origin} is ready.`);
      return 0;
    }
    if (performance.now() + pauseMs > deadline) {
      console.error(`sallyport: ${url.origin} is not ready: ${problem}`);
      return 1;
    }
    await pause(pauseMs);
  }
}

function readyUrl(address: string): URL {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new SettingsError(
      `${address} must begin with http:// or https://, as in http://127.0.0.1:8080.`,
    );
  }
  return new URL('/readyz', url);
}

async function problemOf(url: URL): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      redirect: 'error',
      signal: AbortSignal.timeout(answerMs),
    });
    const body = readyBody.safeParse(await response.json());
    if (!body.success) return 'another program answers at this address.';
    const { ready: isReady, checks = [], reasons = [] } = body.data;
    if (isReady && response.ok) return undefined;
    const failed = checks.filter(({ ok }) => !ok).map(({ name }) => `the check ${name} failed.`);
    return [...failed, ...reasons].join(' ') || 'it gives no reason; its log has one.';
  } catch (error) {
    return describe(error as Error);
  }
}

function describe(error: Error): string {
  if (error.name === 'TimeoutError') return `no answer within ${answerMs / 1_000} s.`;
  if (error instanceof SyntaxError) return 'another program answers at this address.';
  const cause = error.cause instanceof Error ? error.cause : error;
  return `${(cause as NodeJS.ErrnoException).code ?? cause.message}. Is the program running there?`;
}
