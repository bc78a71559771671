/** Where time comes from. Tests inject their own; nothing else reads `Date.now`. */
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
