/**
 * Runs `work` at most once at a time. Callers that arrive during a run share the next run, because
 * the current run may miss their change.
 */
export class CoalescedTask {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #closed = false;

  /** `work` must not reject. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  run(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#running === undefined) {
      this.#running = this.#work().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.run();
    });
    return this.#next;
  }

  /** Starts no further run. Resolves when the current run ends. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }
}

/** Runs `work` for every item, for at most eight items at a time. */
export async function forEachConcurrently<Item>(
  items: Iterable<Item>,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = [...items].values();
  const worker = async () => {
    for (const item of waiting) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}
