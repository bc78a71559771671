import type { Log } from '../../../shared/base/log.ts';
import type { OutboxVault } from '../../platform/integrity/outbox-mac.ts';
import type { DeadLetter } from './dead-letter-flag.ts';
import { keepDeadLetter } from './outbox.ts';
import type { Queryable } from './read-state.ts';

/**
 * Holds events whose sealing failed, until the outbox stores them; they are then sealed as late.
 * The number of held events is limited: further events are dropped and logged. A dropped event
 * records only a refusal.
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

  /** Returns the events that the database has not stored yet, oldest first. */
  of(tenantId: string): readonly DeadLetter[] {
    return this.#letters.filter((letter) => letter.tenantId === tenantId);
  }

  add(letter: DeadLetter): void {
    if (this.#letters.length < this.#lettersMax) {
      this.#letters.push(letter);
      return;
    }
    const { tenantId, event } = letter;
    this.#log.error(
      { tenantId, eventId: event.id, type: event.type },
      'dropped a dead letter because too many wait in memory',
    );
  }

  /** Moves the events into the outbox in order. Rejects at the first failure and keeps the rest. */
  async flush(connection: Queryable, vault: OutboxVault): Promise<void> {
    while (this.#letters.length > 0) {
      const [letter] = this.#letters;
      if (letter === undefined) return;
      await keepDeadLetter(connection, vault, letter);
      this.#letters.shift();
    }
  }
}
