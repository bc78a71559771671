/** Something done again and again beside the requests. */
export interface Rounds {
  /** Starts no more, and resolves when none is under way. */
  close(): Promise<void>;
}

/** Runs `round`, which never rejects, `intervalMs` after the one before has ended. */
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
