/** A periodic background task. */
export interface Rounds {
  /** Starts no further round, and resolves when the current one ends. */
  close(): Promise<void>;
}

/** Runs `round`, which never rejects, `intervalMs` after the previous one has ended. */
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
