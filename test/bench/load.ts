import { Pool } from 'undici';

export interface LoadOptions {
  readonly origin: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
  /** Throws when an answer is not what it must be. */
  readonly check: (status: number, body: string) => void;
}

/** Keeps `connections` requests in flight for `seconds`; every answer is checked. */
export async function load(
  options: LoadOptions,
): Promise<{ readonly perSecond: number; readonly p99Ms: number }> {
  const pool = new Pool(options.origin, { connections: options.connections, pipelining: 1 });
  const latencies: number[] = [];
  const end = performance.now() + options.seconds * 1000;
  const startedAt = performance.now();
  const worker = async () => {
    while (performance.now() < end) {
      const sentAt = performance.now();
      const { statusCode, body } = await pool.request({
        method: 'POST',
        path: options.path,
        headers: options.headers,
        body: options.body,
      });
      options.check(statusCode, await body.text());
      latencies.push(performance.now() - sentAt);
    }
  };
  await Promise.all(Array.from({ length: options.connections }, worker));
  const elapsed = (performance.now() - startedAt) / 1000;
  await pool.close();
  latencies.sort((a, b) => a - b);
  return {
    perSecond: latencies.length / elapsed,
    p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
  };
}

/** Middle value and relative spread of repeated measurements. */
export function summarise(values: readonly number[]): {
  readonly median: number;
  readonly spread: number;
} {
  const sorted = values.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return { median, spread: ((sorted.at(-1) ?? 0) - (sorted[0] ?? 0)) / 2 / median };
}
