import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../shared/base/log.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { EvidenceEvent, SealedEvent } from '../../../shared/ledger/event.ts';
import { isForeignStatement } from '../../platform/store/prepared-statement.ts';
import type { SealMeter } from '../../platform/telemetry/seal-metrics.ts';
import { toSealable } from './check-event.ts';
import type { Entry } from './classify-entries.ts';
import { isFlagged, withoutFlag } from './dead-letter-flag.ts';
import { conflictIncident, lateIncident } from './incident.ts';
import { batchRowsMax } from './prepare-batch.ts';
import { type Sealed, TenantLedger, type TenantLedgerDeps } from './tenant-ledger.ts';

export interface SealerDeps extends TenantLedgerDeps {
  readonly log: Log;
  /** Called after each commit with the ledger's new position. */
  onSealed(tenantId: string, position: number): void;
  /**
   * Called when the stored head of the ledger does not match its signature. Nothing is then
   * appended.
   */
  onFork(tenantId: string): void;
  readonly meter?: SealMeter | undefined;
  /**
   * Receives an event whose sealing failed for a transient reason, if it is not stored anywhere
   * else.
   */
  onDeadLetter(tenantId: string, event: EvidenceEvent, reason: string): void;
}

const triesMax = 3;
const firstPauseMs = 50;
/** After losing this many races to other writers, a batch locks the head. */
const racesMax = 3;

/**
 * Seals one tenant's events in batches. Events that arrive while a batch is written go into the
 * next one.
 */
export class TenantSealer {
  readonly #tenantId: string;
  readonly #deps: SealerDeps;
  readonly #ledger: TenantLedger;
  #queue: Entry[] = [];
  #isPrepared = true;
  #running: Promise<void> | undefined;

  constructor(tenantId: string, deps: SealerDeps) {
    this.#tenantId = tenantId;
    this.#deps = deps;
    this.#ledger = new TenantLedger(tenantId, deps);
  }

  /** The sealing in progress; undefined if nothing is being sealed. */
  get running(): Promise<void> | undefined {
    return this.#running;
  }

  add(entry: Entry): void {
    this.#queue.push(entry);
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    // Waits one microtask, so that the batch includes events that arrive in the same turn of the
    // event loop.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      await this.#sealAll(this.#queue.splice(0, batchRowsMax));
    }
    this.#running = undefined;
  }

  /** Seals entries. Never rejects: every entry is settled, failed or queued again. */
  async #sealAll(entries: readonly Entry[]): Promise<void> {
    const startedAt = performance.now();
    try {
      const sealed = await this.#persist(entries);
      this.#deps.meter?.sealed(sealed.results.length, (performance.now() - startedAt) / 1000);
      this.#finish(sealed);
    } catch (error) {
      this.#ledger.forget();
      if (sealErrorKind(error) === 'data') await this.#sealApart(entries, error);
      else this.#failAll(entries, error);
    }
  }

  /**
   * Retries until the batch is in the ledger. Throws after `triesMax` failures, or at once if the
   * database rejects the data.
   */
  async #persist(entries: readonly Entry[]): Promise<Sealed> {
    let isSuspicious = false;
    let races = 0;
    for (let tries = 1; ; ) {
      try {
        const sealed = await this.#ledger.seal(entries, {
          isSuspicious,
          isLocking: races >= racesMax,
          isPrepared: this.#isPrepared,
        });
        if (sealed !== undefined) return sealed;
        races++;
      } catch (error) {
        this.#ledger.forget();
        const kind = sealErrorKind(error);
        if (kind === 'plan' && this.#isPrepared) {
          this.#isPrepared = false;
          continue;
        }
        if (kind === 'data' || tries === triesMax) throw error;
        // A failed batch may still be in the ledger, so the next try checks before sealing.
        isSuspicious = true;
        if (kind === 'passing') await sleep(firstPauseMs * 5 ** (tries - 1));
        tries++;
      }
    }
  }

  #finish({ results, left, conflicts }: Sealed): void {
    this.#deps.onSealed(this.#tenantId, this.#ledger.position);
    const reports = results.flatMap(({ entry, sealed }) => this.#reportLate(entry, sealed));
    this.#queue = [
      ...left,
      ...conflicts.map((entry) => this.#reportConflict(entry)),
      ...reports,
      ...this.#queue,
    ];
    for (const { entry, sealed } of results) entry.settle(sealed);
  }

  /**
   * Replaces an entry by the incident of its conflict. The entry's failure is reported when the
   * incident is sealed; sealing the incident also deletes the entry's outbox row.
   */
  #reportConflict(entry: Entry): Entry {
    const { event, text, outboxId } = entry;
    const refuse = () =>
      entry.fail(new GatewayError('evidence.id_conflict', { details: { event_id: event.id } }));
    this.#deps.log.error(
      { tenantId: this.#tenantId, eventId: event.id },
      'another event has the same id',
    );
    return this.#incident(conflictIncident(event, text), {
      outboxId,
      settle: refuse,
      fail: refuse,
    });
  }

  #reportLate({ event }: Entry, sealed: SealedEvent): readonly Entry[] {
    if (!isFlagged(event) || isFlagged(JSON.parse(sealed.canonical))) return [];
    return [this.#incident(lateIncident(event), { settle() {}, fail() {} })];
  }

  #incident(event: EvidenceEvent, outcome: Pick<Entry, 'outboxId' | 'settle' | 'fail'>): Entry {
    return { ...toSealable(this.#tenantId, event), ...outcome };
  }

  /**
   * Seals entries in smaller groups, so that an event that the database rejects does not block the
   * others.
   */
  async #sealApart(entries: readonly Entry[], error: unknown): Promise<void> {
    const [first] = entries;
    if (entries.length > 1) {
      const half = Math.ceil(entries.length / 2);
      await this.#sealAll(entries.slice(0, half));
      await this.#sealAll(entries.slice(half));
    } else if (first !== undefined) {
      this.#deps.log.error({ err: error, eventId: first.event.id }, 'could not seal an event');
      first.fail(new GatewayError('evidence.event_invalid', { cause: error }));
    }
  }

  #failAll(entries: readonly Entry[], error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    const events = entries.length;
    this.#deps.meter?.failed(events);
    this.#deps.log.error({ err: error, tenantId: this.#tenantId, events }, 'sealing failed');
    if (error instanceof GatewayError && error.code === 'evidence.fork') {
      this.#deps.onFork(this.#tenantId);
    }
    for (const entry of entries) {
      // An event in the outbox or in a sidecar's spool is kept there, so it needs no dead letter.
      if (entry.outboxId === undefined && entry.isKept !== true) {
        const event = isFlagged(entry.event) ? withoutFlag(entry.event) : entry.event;
        this.#deps.onDeadLetter(this.#tenantId, event, reason);
      }
      entry.fail(new GatewayError('evidence.seal_failed', { cause: error }));
    }
  }
}

/**
 * Why a batch could not be written. `duplicate`: an event of the batch is already sealed. `data`:
 * the database rejects an event's content. `passing`: a transient failure, such as no connection, a
 * time-out, a failover, or no signing key. `plan`: connections share a session (embedded database,
 * poolers), so a prepared statement belongs to another connection.
 */
type SealErrorKind = 'duplicate' | 'data' | 'plan' | 'passing';

const dataStates = /^(22|54|23502|23514)/;

function sealErrorKind(error: unknown): SealErrorKind {
  const { code, constraint } = fieldsOf(error);
  if (code === '23505' && constraint === 'evidence_row_tenant_id_event_id_key') return 'duplicate';
  if (isForeignStatement(error)) return 'plan';
  return dataStates.test(code) ? 'data' : 'passing';
}

function fieldsOf(error: unknown): { readonly code: string; readonly constraint: string } {
  const { code, constraint } = (typeof error === 'object' && error !== null ? error : {}) as {
    readonly code?: unknown;
    readonly constraint?: unknown;
  };
  return {
    code: typeof code === 'string' ? code : '',
    constraint: typeof constraint === 'string' ? constraint : '',
  };
}
