import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { type Tally, tallyOf } from '../../../shared/usage/tally.ts';
import { isFlagged } from './dead-letter.ts';

/** What a batch of events adds to budgets: one row a key. */
export class BatchTally {
  readonly #rows = new Map<string, Tally>();

  /**
   * Whoever asked for an event that was sealed late was refused: it counts for nothing, unless the
   * answer was kept, for then whoever asks again gets it.
   */
  add(event: EvidenceEvent): void {
    if (isFlagged(event) && event.data.answer_kept !== true) return;
    for (const tally of tallyOf(event)) {
      const { amount, ...key } = tally;
      const text = JSON.stringify(key);
      const known = this.#rows.get(text);
      this.#rows.set(text, known ? { ...known, amount: known.amount + amount } : tally);
    }
  }

  rows(): readonly Tally[] {
    return [...this.#rows.values()];
  }
}
