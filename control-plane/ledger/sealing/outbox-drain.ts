import type { Pool } from 'pg';
import type { Log } from '../../../shared/base/log.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { SealedEvent } from '../../../shared/ledger/event.ts';
import type { OutboxVault } from '../../platform/integrity/outbox-mac.ts';
import type { ForgeryMeter } from '../../platform/telemetry/forgery-metrics.ts';
import { markDeadLetters, type OutboxEvent, readOutbox } from './outbox.ts';
import { batchRowsMax } from './prepare-batch.ts';
import { findSealed } from './read-state.ts';
import type { TenantSealer } from './tenant-sealer.ts';

interface Waiter {
  readonly eventId: string;
  resolve(sealed: SealedEvent): void;
  reject(error: Error): void;
}

interface DrainDeps {
  readonly pool: Pool;
  readonly log: Log;
  readonly sealer: TenantSealer;
  readonly vault: OutboxVault;
  readonly forgeryMeter?: ForgeryMeter | undefined;
}

/**
 * Seals one tenant's outbox, oldest first, and resolves the callers that wait for one of its
 * events.
 */
export class OutboxDrain {
  readonly #tenantId: string;
  readonly #deps: DrainDeps;
  #waiters: Waiter[] = [];
  #isWanted = false;
  #running: Promise<void> | undefined;

  constructor(tenantId: string, deps: DrainDeps) {
    this.#tenantId = tenantId;
    this.#deps = deps;
  }

  get running(): Promise<void> | undefined {
    return this.#running;
  }

  /** Waits until an event that a committed transaction recorded is sealed, and resolves with it. */
  sealed(eventId: string): Promise<SealedEvent> {
    return new Promise((resolve, reject) => {
      this.#waiters.push({ eventId, resolve, reject });
      void this.drain();
    });
  }

  /** Seals the outbox now. Never rejects: events that fail stay in the outbox. */
  drain(): Promise<void> {
    this.#isWanted = true;
    this.#running ??= this.#run();
    return this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve();
    while (this.#isWanted) {
      this.#isWanted = false;
      // Callers that arrive while the outbox is being read wait for the next round.
      const waiters = this.#waiters;
      this.#waiters = [];
      await this.#round(waiters);
    }
    this.#running = undefined;
  }

  async #round(waiters: readonly Waiter[]): Promise<void> {
    try {
      const place = { tenantId: this.#tenantId, vault: this.#deps.vault };
      const events = await readOutbox(this.#deps.pool, place, batchRowsMax);
      const { sealed, failed } = await this.#seal(events);
      const isWhole = events.length < batchRowsMax;
      // More rows may follow a full page. Does not continue if no row of the page could be sealed.
      if (!isWhole && sealed.size > 0) this.#isWanted = true;
      await this.#settleWaiters(waiters, { sealed, failed, isWhole });
      await this.#markFailed(events, failed);
    } catch (cause) {
      for (const waiter of waiters) waiter.reject(sealFailed(cause));
    }
  }

  async #seal(events: readonly OutboxEvent[]) {
    const sealed = new Map<string, SealedEvent>();
    const failed = new Map<string, Error>();
    const results = events.map(
      ({ eventId, isForged, ...sealable }) =>
        new Promise<void>((resolve) => {
          const onSealed = (row: SealedEvent) => {
            if (isForged) this.#reportForged(eventId);
            // The event that callers wait for was not sealed, because its outbox row was forged.
            if (isForged) failed.set(eventId, sealFailed(new Error('its outbox row was forged')));
            sealed.set(isForged ? sealable.event.id : eventId, row);
          };
          this.#deps.sealer.add({
            ...sealable,
            settle(row) {
              onSealed(row);
              resolve();
            },
            fail(error) {
              failed.set(eventId, error);
              resolve();
            },
          });
        }),
    );
    await Promise.all(results);
    return { sealed, failed };
  }

  #reportForged(eventId: string): void {
    const { log, forgeryMeter } = this.#deps;
    forgeryMeter?.refused('event_outbox');
    log.error(
      { tenantId: this.#tenantId, eventId },
      'a row of event_outbox failed its integrity check and was not sealed',
    );
  }

  async #settleWaiters(waiters: readonly Waiter[], round: Round): Promise<void> {
    const unknown: Waiter[] = [];
    for (const waiter of waiters) {
      const row = round.sealed.get(waiter.eventId);
      const error = round.failed.get(waiter.eventId);
      if (row !== undefined) waiter.resolve(row);
      else if (error !== undefined) waiter.reject(error);
      else unknown.push(waiter);
    }
    if (unknown.length > 0) await this.#settleUnknown(unknown, round.isWhole);
  }

  /**
   * Settles the callers whose event is not in the page: another process sealed the event, it is on
   * a later page, or it was never recorded.
   */
  async #settleUnknown(waiters: readonly Waiter[], isWhole: boolean): Promise<void> {
    const ids = waiters.map(({ eventId }) => eventId);
    let found: ReadonlyMap<string, SealedEvent>;
    try {
      found = await findSealed(this.#deps.pool, this.#tenantId, ids);
    } catch (cause) {
      for (const waiter of waiters) waiter.reject(sealFailed(cause));
      return;
    }
    for (const waiter of waiters) {
      const row = found.get(waiter.eventId);
      if (row !== undefined) waiter.resolve(row);
      else if (!isWhole && this.#isWanted) this.#waiters.push(waiter);
      else waiter.reject(sealFailed(new Error(`event ${waiter.eventId} is not in the outbox`)));
    }
  }

  async #markFailed(events: readonly OutboxEvent[], failed: ReadonlyMap<string, Error>) {
    const [reason] = failed.values();
    const ids = events.filter(({ eventId }) => failed.has(eventId)).map(({ outboxId }) => outboxId);
    if (reason === undefined) return;
    try {
      await markDeadLetters(this.#deps.pool, this.#tenantId, ids, reason.message);
    } catch (error) {
      this.#deps.log.warn(
        { err: error, tenantId: this.#tenantId },
        'could not mark dead letters in the outbox',
      );
    }
  }
}

interface Round {
  readonly sealed: ReadonlyMap<string, SealedEvent>;
  readonly failed: ReadonlyMap<string, Error>;
  /** True if the page held the whole outbox. */
  readonly isWhole: boolean;
}

function sealFailed(cause: unknown): GatewayError {
  return new GatewayError('evidence.seal_failed', { cause });
}
