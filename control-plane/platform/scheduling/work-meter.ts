import { AsyncLocalStorage } from 'node:async_hooks';

/** Processor time of this thread in milliseconds; waiting and other processes do not count. */
type ProcessorClock = () => number;

const threadMs: ProcessorClock = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

const current = new AsyncLocalStorage<WorkMeter>();

/** Sums the processor time of the measured parts of one request. */
export class WorkMeter {
  readonly #now: ProcessorClock;
  #isMeasuring = false;
  #ms = 0;

  constructor(now: ProcessorClock = threadMs) {
    this.#now = now;
  }

  get ms(): number {
    return this.#ms;
  }

  /**
   * Measures `act` until it returns or first awaits. Code that runs after an await can add its
   * processor time with `measureWork`.
   */
  measure<Result>(act: () => Result): Result {
    return current.run(this, () => this.add(act));
  }

  /** Adds the processor time of `act`. A measured part inside another one is not counted twice. */
  add<Result>(act: () => Result): Result {
    if (this.#isMeasuring) return act();
    this.#isMeasuring = true;
    const startedAt = this.#now();
    try {
      return act();
    } finally {
      this.#ms += this.#now() - startedAt;
      this.#isMeasuring = false;
    }
  }
}

/** Runs `act`, which must be synchronous, and adds its processor time to the current request. */
export function measureWork<Result>(act: () => Result): Result {
  const meter = current.getStore();
  return meter === undefined ? act() : meter.add(act);
}
