import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import { type Release, UsageBook } from '../../shared/usage/usage-book.ts';
import type { Sums } from '../../shared/vocabulary/verdict.ts';

/**
 * What this process permitted since it began, counted in the tick of the decision: the database
 * learns of it by the sealed decision, and what others do is read from there.
 */
export class OwnUsage {
  /** Names the counts of this process in the ledger. */
  readonly run: string;
  readonly #book = new UsageBook();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.run = newId('run', clock.now());
  }

  of(action: Subject) {
    return this.#book.of(keyOf(action));
  }

  count(action: Subject, sums: Sums): Release {
    const at = { nowMs: this.#clock.now(), monotonicMs: this.#clock.monotonic() };
    return this.#book.count(keyOf(action), sums, at);
  }
}

interface Subject {
  readonly tenantId: string;
  readonly agentId: string;
  readonly tool: string;
}

function keyOf({ tenantId, agentId, tool }: Subject): string {
  return JSON.stringify([tenantId, agentId, tool]);
}
