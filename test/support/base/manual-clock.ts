import type { Clock } from '../../../shared/base/clock.ts';

export interface ManualClock extends Clock {
  /** Both clocks move on. */
  advance(ms: number): void;
  /** The wall clock alone is set, as an operator or NTP would. */
  setWall(nowMs: number): void;
}

/** A clock that moves only when told. */
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
