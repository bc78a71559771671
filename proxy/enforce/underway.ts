import { setTimeout as delay } from 'node:timers/promises';

/** What is being answered or recorded now, so that nothing is closed under it. */
export class Underway {
  readonly #running = new Set<Promise<void>>();

  add(work: Promise<void>): Promise<void> {
    this.#running.add(work);
    const done = () => this.#running.delete(work);
    work.then(done, done);
    return work;
  }

  /** Resolves when all has ended, or after `atMostMs`. */
  async settled(atMostMs: number): Promise<void> {
    const patience = new AbortController();
    const { signal } = patience;
    await Promise.race([
      Promise.allSettled(this.#running),
      delay(atMostMs, undefined, { signal }).catch(() => {}),
    ]);
    patience.abort();
  }
}
