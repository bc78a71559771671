import type { Clock } from '../../shared/base/clock.ts';
import { newId } from '../../shared/base/ids.ts';
import { type Release, UsageBook } from '../../shared/usage/usage-book.ts';
import type { Sums } from '../../shared/vocabulary/verdict.ts';

/**
 * Counts the calls that this process allowed, synchronously with each decision. Sealing a decision
 * adds its counts to the database; decisions read the counts of other processes from there.
 */
export class OwnUsage {
  /** Identifies the counts of this process in the ledger. */
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
