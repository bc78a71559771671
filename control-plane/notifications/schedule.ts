const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;

/** When attempts are made: the Standard Webhooks schedule, each delay after the attempt before. */
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
  /** Attempts made, the one that failed included. */
  readonly attempts: number;
  readonly nowMs: number;
  /** What the receiver asked for. */
  readonly retryAfterMs?: number | undefined;
  /** From 0 up to 1. */
  readonly random: number;
}

/**
 * When to try again after a failure; undefined when it was the last attempt. Delays differ by a
 * fifth either way, so that what failed together does not come back together; a receiver that asks
 * for more time gets it, up to a day.
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

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110 10.2.3); undefined for anything else. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * second;
  const atMs = Date.parse(header);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}
