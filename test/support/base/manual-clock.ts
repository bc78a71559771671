import type { Clock } from '../../../shared/base/clock.ts';

export interface ManualClock extends Clock {
  /** Advances both clocks. */
  advance(ms: number): void;
  /** Sets only the wall clock, as an operator or NTP would. */
  setWall(nowMs: number): void;
}

/** A clock that advances only when a test calls it. */
export function manualClock(startMs = Date.UTC(2026, 0, 1)): ManualClock {
  let wall = startMs;
  let monotonic = 1_000;
  return {
    now: () => wall,
    monotonic: () => monotonic,
    advance(ms) {
      wall += ms;
      monotonic += ms;
    },
    setWall(nowMs) {
      wall = nowMs;
    },
  };
}
