const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** The Standard Webhooks schedule: each delay counts from the previous attempt. */
const delaysMs = [
  0,
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];
export const attemptsMax = delaysMs.length;

const jitter = 0.2;

interface Failed {
  /** Attempts so far, including the failed one. */
  readonly attempts: number;
  readonly nowMs: number;
  /** Delay that the receiver asked for. */
  readonly retryAfterMs?: number | undefined;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
}

/**
 * Returns when to retry after a failure, or undefined after the last attempt. Delays have 20%
 * jitter, so that deliveries that failed together do not retry together. A receiver can ask for a
 * longer delay, up to a day.
 */
export function nextAttemptMs({
  attempts,
  nowMs,
  retryAfterMs = 0,
  random,
}: Failed): number | undefined {
  const delayMs = delaysMs[attempts];
  if (delayMs === undefined) return undefined;
  const spread = delayMs * (1 - jitter + 2 * jitter * random);
  return nowMs + Math.round(Math.max(spread, Math.min(retryAfterMs, 24 * hour)));
}

/**
 * Parses `Retry-After` (seconds or a date; RFC 9110 10.2.3) to milliseconds. Returns undefined for
 * anything else.
 */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * second;
  const atMs = Date.parse(header);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}
