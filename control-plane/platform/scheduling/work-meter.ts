import { AsyncLocalStorage } from 'node:async_hooks';

/** Processor time of this thread in milliseconds: waiting, and other processes, take none of it. */
type ProcessorClock = () => number;

const threadMs: ProcessorClock = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

const current = new AsyncLocalStorage<WorkMeter>();

/** The processor time of one request, of the parts of its work that are measured. */
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
   * Measures what `act` does before it returns or first waits. What follows from it may measure
   * more with `measureWork`.
   */
  measure<Result>(act: () => Result): Result {
    return current.run(this, () => this.add(act));
  }

  /** A part within a part is measured once. */
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

/** Adds the processor time of `act`, which does not wait, to the request that it is done for. */
export function measureWork<Result>(act: () => Result): Result {
  const meter = current.getStore();
  return meter === undefined ? act() : meter.add(act);
}
