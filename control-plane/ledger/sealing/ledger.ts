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
  /** Seals events in this order, dropping those already sealed with the same bytes. */
  sealAll(tenantId: string, events: readonly EvidenceEvent[]): Promise<readonly SealedEvent[]>;
  /**
   * The same for events that the caller keeps until they are sealed: what fails now is not sealed
   * later as a dead letter, and each is told apart from the others.
   */
  sealKept(
    tenantId: string,
    events: readonly EvidenceEvent[],
  ): Promise<readonly PromiseSettledResult<SealedEvent>[]>;
  /** Commits an event together with the change it proves: call inside the change's transaction. */
  record(tx: Transaction, tenantId: string, event: EvidenceEvent): Promise<void>;
  /** After that transaction: resolves once the event is sealed. Never call inside one. */
  sealed(tenantId: string, eventId: string): Promise<SealedEvent>;
  /** Seals now what waits for this tenant, as far as it can be. Never rejects. */
  retry(tenantId: string): Promise<void>;
  /** Events whose sealing failed, in the memory of this process: the database does not take them yet. */
  unstored(tenantId: string): readonly { readonly event: EvidenceEvent; readonly reason: string }[];
  /** The same, how many of all tenants. */
  readonly unstoredCount: number;
}

type LedgerDeps = Pick<Platform, 'db' | 'pool' | 'signingKeys' | 'clock' | 'log'> & {
  /** For the keyed hashes of outbox rows. */
  readonly vault: OutboxVault;
  readonly forgeryMeter?: ForgeryMeter | undefined;
  /** Told after each commit how far a tenant's ledger reaches. */
  readonly onSealed?: (tenantId: string, position: number) => void;
  /** Told when a ledger's end is not the one that was signed, so that nothing is sealed. */
  readonly onFork?: (tenantId: string) => void;
  /** Told once when a ledger does not hold any more what this process had sealed or seen. */
  readonly onRolledBack?: (tenantId: string, lost: End, ledgerPosition: number) => void;
  /** Up to where somebody accepted that a ledger was set back; default: nowhere. */
  readonly acceptedPosition?: (tenantId: string) => Promise<number>;
  readonly meter?: SealMeter | undefined;
};

export interface RunningLedger extends Ledger {
  /** Seals what waits in the outbox for any tenant, whoever put it there. Never rejects. */
  drain(): Promise<void>;
  /** Seals what was asked for, and takes no more. */
  close(): Promise<void>;
}

/** What a program that died left in the outbox waits no longer than this. */
const sweepMs = 1_000;
const idleMs = 600_000;

interface Tenant {
  readonly sealer: TenantSealer;
  readonly drain: OutboxDrain;
  usedAt: number;
}

/** The ledger's writing side (design 8). Starts by sealing what an earlier run left in the outbox. */
export function createLedger(deps: LedgerDeps): RunningLedger {
  const { pool, clock, log, vault, forgeryMeter } = deps;
  const tenants = new Map<string, Tenant>();
  // Kept for tenants that are idle, too: a few words each.
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
        log.warn({ err: error, tenantId }, 'a listener of the ledger failed');
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
      log.warn({ err: error, deadLetters: deadLetters.count }, 'the outbox cannot be read');
    }
  };
  const retry = async (tenantId: string) => {
    await deadLetters.flush(pool, vault).catch((error: unknown) => {
      log.warn({ err: error, deadLetters: deadLetters.count }, 'dead letters cannot be kept yet');
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
          'dead letters are lost: the database is away',
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

/** Waits for all of them: one that fails does not keep the others from being told apart from it. */
async function settleAll(seals: readonly Promise<SealedEvent>[]): Promise<readonly SealedEvent[]> {
  const results = await Promise.allSettled(seals);
  const reasons = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason] : [],
  );
  // What may pass comes first: then the caller sends all of them again.
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
