import { describe, expect, it } from 'vitest';
import {
  attemptsMax,
  nextAttemptMs,
  retryAfterMs,
} from '../../../control-plane/notifications/schedule.ts';

const nowMs = 1_000_000;
const minute = 60_000;
const hour = 60 * minute;
const delays = [
  5_000,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];

describe('the retry schedule', () => {
  it.each(delays.map((delayMs, index) => [index + 1, delayMs] as const))(
    'after failed attempt %i waits %i ms, plus or minus a fifth',
    (attempts, delayMs) => {
      const at = (random: number) => nextAttemptMs({ attempts, nowMs, random });
      expect(at(0)).toBe(nowMs + delayMs * 0.8);
      expect(at(0.5)).toBe(nowMs + delayMs);
      expect(at(1)).toBe(nowMs + Math.round(delayMs * 1.2));
    },
  );

  it('ends after the tenth attempt', () => {
    expect(attemptsMax).toBe(10);
    for (const attempts of [10, 11]) {
      expect(nextAttemptMs({ attempts, nowMs, random: 0.5, retryAfterMs: 1 })).toBeUndefined();
    }
  });

  it('uses the receiver’s Retry-After, limited to one day, if it is longer than the scheduled delay', () => {
    const waiting = (ms: number) =>
      nextAttemptMs({ attempts: 1, nowMs, random: 0.5, retryAfterMs: ms });
    expect(waiting(90_000)).toBe(nowMs + 90_000);
    expect(waiting(1)).toBe(nowMs + 5_000);
    expect(waiting(999 * hour)).toBe(nowMs + 24 * hour);
  });

  it('accepts only seconds or a date in Retry-After', () => {
    const atMs = Date.parse('Fri, 20 Nov 2026 10:00:00 GMT');
    expect(retryAfterMs('120', atMs)).toBe(120_000);
    expect(retryAfterMs('Fri, 20 Nov 2026 10:00:30 GMT', atMs)).toBe(30_000);
    expect(retryAfterMs('Fri, 20 Nov 2026 09:00:00 GMT', atMs)).toBe(0);
    for (const odd of [undefined, '', 'soon', '1e99', '-5']) {
      const wait = retryAfterMs(odd, atMs);
      expect(wait === undefined || wait === 0).toBe(true);
    }
  });
});
