import type { Log } from '../../../shared/base/log.ts';
import type { OutboxVault } from '../../platform/integrity/outbox-mac.ts';
import type { DeadLetter } from './dead-letter.ts';
import { keepDeadLetter } from './outbox.ts';
import type { Queryable } from './read-state.ts';

/**
 * Events that could not be sealed, until the database takes them into the outbox, where they wait
 * to be sealed as late. Bounded: whoever asked was refused, so what is lost beyond is a record of
 * a refusal, and the log has it.
 */
export class DeadLetters {
  readonly #log: Log;
  readonly #lettersMax: number;
  #letters: DeadLetter[] = [];

  constructor(log: Log, lettersMax = 10_000) {
    this.#log = log;
    this.#lettersMax = lettersMax;
  }

  get count(): number {
    return this.#letters.length;
  }

  /** What the database did not take yet, oldest first. */
  of(tenantId: string): readonly DeadLetter[] {
    return this.#letters.filter((letter) => letter.tenantId === tenantId);
  }

  add(letter: DeadLetter): void {
    if (this.#letters.length < this.#lettersMax) {
      this.#letters.push(letter);
      return;
    }
    const { tenantId, event } = letter;
    this.#log.error({ tenantId, eventId: event.id, type: event.type }, 'a dead letter was dropped');
  }

  /** Moves them into the outbox, in order, as far as the database answers; else rejects and keeps the rest. */
  async flush(connection: Queryable, vault: OutboxVault): Promise<void> {
    while (this.#letters.length > 0) {
      const [letter] = this.#letters;
      if (letter === undefined) return;
      await keepDeadLetter(connection, vault, letter);
      this.#letters.shift();
    }
  }
}
