/** The source of time. Tests inject their own clock. */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number;
  /** Monotonic clock in milliseconds: for ages and time-outs, immune to clock steps. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};
