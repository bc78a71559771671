import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { EvidenceEvent, SealedEvent } from '../../../shared/ledger/event.ts';
import type { OutboxVault } from '../../platform/integrity/outbox-mac.ts';
import type { Platform } from '../../platform/platform.ts';
import type { Transaction } from '../../platform/store/transaction.ts';
import type { ForgeryMeter } from '../../platform/telemetry/forgery-metrics.ts';
import type { SealMeter } from '../../platform/telemetry/seal-metrics.ts';
import { toSealable } from './check-event.ts';
import { ConfirmedEnd, type End } from './confirmed-end.ts';
import { DeadLetters } from './dead-letters.ts';
import { recordEvent, tenantsWithOutbox } from './outbox.ts';
import { OutboxDrain } from './outbox-drain.ts';
import { type SealerDeps, TenantSealer } from './tenant-sealer.ts';

/** The ledger's writing side. */
export interface Ledger {
  /** Seals one event in the next group commit; resolves when it is durable. */
  seal(tenantId: string, event: EvidenceEvent): Promise<SealedEvent>;
  /** Seals events in this order. Skips events that are already sealed with the same bytes. */
  sealAll(tenantId: string, events: readonly EvidenceEvent[]): Promise<readonly SealedEvent[]>;
  /**
   * Seals events that the caller keeps until they are sealed. Therefore a failure makes no dead
   * letter, and each event has its own result.
   */
  sealKept(
    tenantId: string,
    events: readonly EvidenceEvent[],
  ): Promise<readonly PromiseSettledResult<SealedEvent>[]>;
  /**
   * Commits an event together with the change it proves. Call it inside the change's transaction.
   */
  record(tx: Transaction, tenantId: string, event: EvidenceEvent): Promise<void>;
  /**
   * Resolves when a recorded event is sealed. Call it after the transaction that called `record`,
   * never inside a transaction.
   */
  sealed(tenantId: string, eventId: string): Promise<SealedEvent>;
  /** Seals this tenant's waiting events, as far as possible. Never rejects. */
  retry(tenantId: string): Promise<void>;
  /**
   * Events whose sealing failed and that the database has not stored yet; they are in this
   * process's memory only.
   */
  unstored(tenantId: string): readonly { readonly event: EvidenceEvent; readonly reason: string }[];
  /** Number of unstored events of all tenants. */
  readonly unstoredCount: number;
}

type LedgerDeps = Pick<Platform, 'db' | 'pool' | 'signingKeys' | 'clock' | 'log'> & {
  /** Computes the keyed hashes of outbox rows. */
  readonly vault: OutboxVault;
  readonly forgeryMeter?: ForgeryMeter | undefined;
  /** Called after each commit with the ledger's new position. */
  readonly onSealed?: (tenantId: string, position: number) => void;
  /**
   * Called when the stored head of a ledger does not match its signature. Nothing is then sealed.
   */
  readonly onFork?: (tenantId: string) => void;
  /** Called once when a ledger no longer contains events that this process sealed or read. */
  readonly onRolledBack?: (tenantId: string, lost: End, ledgerPosition: number) => void;
  /** Returns the position up to which an operator accepted a rollback; default: none. */
  readonly acceptedPosition?: (tenantId: string) => Promise<number>;
  readonly meter?: SealMeter | undefined;
};

export interface RunningLedger extends Ledger {
  /** Seals the outbox of every tenant, including rows of other processes. Never rejects. */
  drain(): Promise<void>;
  /** Stops accepting events, and seals the events that were already accepted. */
  close(): Promise<void>;
}

/** Maximum time that outbox rows of a crashed process wait. */
const sweepMs = 1_000;
const idleMs = 600_000;

interface Tenant {
  readonly sealer: TenantSealer;
  readonly drain: OutboxDrain;
  usedAt: number;
}

/**
 * Creates the ledger's writing side (design 8). First seals the events that an earlier run left in
 * the outbox.
 */
export function createLedger(deps: LedgerDeps): RunningLedger {
  const { pool, clock, log, vault, forgeryMeter } = deps;
  const tenants = new Map<string, Tenant>();
  // The entries of idle tenants are kept, too, because entries are small.
  const confirmedEnds = new Map<string, ConfirmedEnd>();
  const deadLetters = new DeadLetters(log);
  let isClosed = false;

  const sealerDeps: SealerDeps = {
    pool,
    signingKeys: deps.signingKeys,
    log,
    meter: deps.meter,
    onSealed(tenantId, position) {
      try {
        deps.onSealed?.(tenantId, position);
      } catch (error) {
        log.warn({ err: error, tenantId }, 'a listener for ledger events failed');
      }
    },
    onFork: (tenantId) => deps.onFork?.(tenantId),
    onRolledBack: (...what) => deps.onRolledBack?.(...what),
    acceptedPosition: async (tenantId) => (await deps.acceptedPosition?.(tenantId)) ?? 0,
    confirmedEnd(tenantId) {
      const end = confirmedEnds.get(tenantId) ?? new ConfirmedEnd();
      confirmedEnds.set(tenantId, end);
      return end;
    },
    onDeadLetter: (tenantId, event, reason) => deadLetters.add({ tenantId, event, reason }),
  };
  const tenantOf = (tenantId: string): Tenant => {
    const tenant =
      tenants.get(tenantId) ?? newTenant(tenantId, sealerDeps, { vault, forgeryMeter });
    tenants.set(tenantId, tenant);
    tenant.usedAt = clock.monotonic();
    return tenant;
  };
  const seal = (tenantId: string, event: EvidenceEvent, { isKept = false } = {}) =>
    new Promise<SealedEvent>((resolve, reject) => {
      if (isClosed) throw new GatewayError('evidence.seal_failed', { cause: new Error('closed') });
      tenantOf(tenantId).sealer.add({
        ...toSealable(tenantId, event),
        isKept,
        settle: resolve,
        fail: reject,
      });
    });
  const drain = async () => {
    try {
      await deadLetters.flush(pool, vault);
      const waiting = await tenantsWithOutbox(pool);
      await Promise.all(waiting.map((tenantId) => tenantOf(tenantId).drain.drain()));
    } catch (error) {
      log.warn({ err: error, deadLetters: deadLetters.count }, 'could not read the outbox');
    }
  };
  const retry = async (tenantId: string) => {
    await deadLetters.flush(pool, vault).catch((error: unknown) => {
      log.warn(
        { err: error, deadLetters: deadLetters.count },
        'could not store dead letters; they stay in memory',
      );
    });
    await tenantOf(tenantId).drain.drain();
  };
  const sweeper = startSweeper(async () => {
    await drain();
    forgetIdle(tenants, clock.monotonic() - idleMs);
  });

  return {
    seal: (tenantId, event) => seal(tenantId, event),
    sealKept: (tenantId, events) =>
      Promise.allSettled(events.map((event) => seal(tenantId, event, { isKept: true }))),
    sealAll: (tenantId, events) => settleAll(events.map((event) => seal(tenantId, event))),
    record: (tx, tenantId, event) => recordEvent(tx, { tenantId, vault }, event),
    sealed: (tenantId, eventId) => tenantOf(tenantId).drain.sealed(eventId),
    drain,
    retry,
    unstored: (tenantId) => deadLetters.of(tenantId),
    get unstoredCount() {
      return deadLetters.count;
    },
    async close() {
      isClosed = true;
      await sweeper.stop();
      await underWay(tenants);
      await deadLetters.flush(pool, vault).catch(() => {
        log.error(
          { deadLetters: deadLetters.count },
          'lost dead letters because the database is unavailable',
        );
      });
    },
  };
}

function newTenant(
  tenantId: string,
  deps: SealerDeps,
  integrity: Pick<LedgerDeps, 'vault' | 'forgeryMeter'>,
): Tenant {
  const sealer = new TenantSealer(tenantId, deps);
  const { pool, log } = deps;
  const drain = new OutboxDrain(tenantId, { pool, log, sealer, ...integrity });
  return { sealer, drain, usedAt: 0 };
}

/** Waits for all seals before it throws, so that each failure is reported for its own event. */
async function settleAll(seals: readonly Promise<SealedEvent>[]): Promise<readonly SealedEvent[]> {
  const results = await Promise.allSettled(seals);
  const reasons = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason] : [],
  );
  // Throws a retryable failure first, because the caller then sends all events again.
  const passing = reasons.find((reason) => reason instanceof GatewayError && reason.kind.retryable);
  if (reasons.length > 0) throw passing ?? reasons[0];
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

function startSweeper(sweep: () => Promise<void>): { stop(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const round = async () => {
    await sweep();
    if (!isStopped) {
      timer = setTimeout(() => {
        running = round();
      }, sweepMs).unref();
    }
  };
  let running = round();
  return {
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

async function underWay(tenants: ReadonlyMap<string, Tenant>): Promise<void> {
  for (const { sealer, drain } of tenants.values()) {
    await drain.running;
    await sealer.running;
  }
}

function forgetIdle(tenants: Map<string, Tenant>, before: number): void {
  for (const [tenantId, { sealer, drain, usedAt }] of tenants) {
    const isIdle = sealer.running === undefined && drain.running === undefined;
    if (isIdle && usedAt < before) tenants.delete(tenantId);
  }
}
