/** A periodic background task. */
export interface Rounds {
  /** Starts no further round. Resolves when the current round ends. */
  close(): Promise<void>;
}

/**
 * Runs `round` again and again, each time `intervalMs` after the previous round has ended. `round`
 * must not reject.
 */
export function startRounds(round: () => Promise<void>, intervalMs: number): Rounds {
  let stopped = false;
  let underWay: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const schedule = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      underWay = round().finally(schedule);
    }, intervalMs);
    timer.unref();
  };
  schedule();
  return {
    async close() {
      stopped = true;
      clearTimeout(timer);
      await underWay;
    },
  };
}
