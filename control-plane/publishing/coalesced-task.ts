/**
 * Runs `work` once at a time. Who asks while it runs gets the next run, for what they have just
 * committed may have come too late for this one; all who ask meanwhile share it.
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

  /** Starts nothing more; resolves when what runs is over. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }
}

/** Does `work` for every item, a few at once. */
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
