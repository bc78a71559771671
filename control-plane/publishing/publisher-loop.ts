import type { Subscription } from '../../shared/bus/bus.ts';
import { tenantTopic } from '../../shared/bus/tenant-keys.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { leaseTopic } from '../../shared/sync/sections.ts';
import { heartbeatSection } from '../../shared/sync/signed-heartbeat.ts';
import type { ChangePublisher } from '../core/change-publisher.ts';
import { type LiveSidecar, liveSidecars } from '../core/live-sidecars.ts';
import { bumpSections, ensureSections, pendingSections } from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import type { Ledger } from '../ledger/sealing/ledger.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { syncKeys } from '../platform/signing-keys/sync-keys.ts';
import { auditBus } from './audit-bus.ts';
import { CoalescedTask, forEachConcurrently } from './coalesced-task.ts';
import { beat } from './heartbeat.ts';
import { renewLease, withoutLease } from './leases.ts';
import { publishPendingSections, sidecarIdOf } from './publish-tenant.ts';

export interface PublisherDeps
  extends Pick<Services, 'db' | 'bus' | 'clock' | 'log' | 'vault' | 'guard' | 'signingKeys'> {
  readonly ledger: Pick<Ledger, 'record'>;
  /** Interval between rounds, and between heartbeats. Default: one second. */
  readonly roundMs?: number | undefined;
  /** Interval between two comparisons of the bus with the database. */
  readonly auditMs?: number | undefined;
}

export interface RunningPublisher extends ChangePublisher {
  /** Runs one round after the current one, and resolves when it ends. Never rejects. */
  round(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts this process's publisher. The publisher of every process handles all pending sections;
 * compare-and-set on the bus resolves conflicts.
 */
export function createPublisher(deps: PublisherDeps): RunningPublisher {
  return new PublisherLoop(deps);
}

class PublisherLoop implements RunningPublisher {
  readonly #deps: PublisherDeps;
  readonly #roundMs: number;
  readonly #auditMs: number;
  /** Time of the last audit of the bus, by tenant. */
  readonly #auditedAtMs = new Map<string, number>();
  /** Time of the last heartbeat check, by tenant. */
  readonly #servedAtMs = new Map<string, number>();
  readonly #live = new Map<string, Set<string>>();
  readonly #topics = new Map<string, Subscription>();
  /** Sidecars that asked for a lease, as `<tenant> <id>`. */
  readonly #asked = new Set<string>();
  readonly #failing = new Set<string>();
  #allAudited = false;
  /** Changes are published separately from rounds, so that a change never waits for leases. */
  readonly #pendingPublication = new CoalescedTask(() => this.#publishAllPending());
  readonly #rounds = new CoalescedTask(() => this.#round());
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(deps: PublisherDeps) {
    this.#deps = deps;
    this.#roundMs = deps.roundMs ?? 1_000;
    this.#auditMs = deps.auditMs ?? 10_000;
    this.#schedule(0);
  }

  readonly changed: ChangePublisher['changed'] = (tx, tenantId, ...sections) =>
    bumpSections(tx, tenantId, sections);

  nudge(): void {
    void this.#pendingPublication.run();
  }

  round(): Promise<void> {
    return this.#rounds.run();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await Promise.all([this.#pendingPublication.close(), this.#rounds.close()]);
    await Promise.all([...this.#topics.values()].map((topic) => topic.close()));
  }

  #schedule(inMs: number): void {
    this.#timer = setTimeout(() => {
      void this.round().then(() => {
        if (!this.#closed) this.#schedule(this.#roundMs);
      });
    }, inMs);
  }

  async #publishAllPending(): Promise<void> {
    const { db, signingKeys } = this.#deps;
    await this.#attempt('carrying', async () => {
      const pending = await pendingSections(db);
      await forEachConcurrently(pending, ([tenantId, names]) =>
        this.#attempt(`tenant ${tenantId}`, async () => {
          await publishPendingSections(this.#deps, tenantId, await syncKeys(signingKeys, tenantId));
          // Starts a round, because a newly enrolled sidecar waits for its first lease.
          if (names.some((name) => this.#isNew(tenantId, name))) void this.round();
        }),
      );
    });
  }

  #isNew(tenantId: string, name: string): boolean {
    const id = sidecarIdOf(name);
    return id !== undefined && this.#live.get(tenantId)?.has(id) !== true;
  }

  async #round(): Promise<void> {
    const { db, clock } = this.#deps;
    await this.#attempt('round', async () => {
      await ensureSections(db);
      const live = await liveSidecars(db, clock.now());
      this.#noteLive(live);
      await this.#renewLeases(live);
      await forEachConcurrently(await this.#tenantsDue(), (tenantId) => this.#serve(tenantId));
    });
  }

  #noteLive(live: readonly LiveSidecar[]): void {
    this.#live.clear();
    for (const { tenantId, id } of live) {
      const ids = this.#live.get(tenantId);
      if (ids === undefined) this.#live.set(tenantId, new Set([id]));
      else ids.add(id);
      this.#listen(tenantId);
    }
  }

  /**
   * Returns the tenants of this round: those with changes, those with live sidecars and a due
   * heartbeat, and those that were not audited yet.
   */
  async #tenantsDue(): Promise<readonly string[]> {
    const { db, clock } = this.#deps;
    const pending = [...(await pendingSections(db)).keys()];
    const nowMs = clock.monotonic();
    const due = [...this.#live.keys()].filter(
      (tenantId) => nowMs - (this.#servedAtMs.get(tenantId) ?? -Infinity) >= this.#roundMs * 0.9,
    );
    const others = this.#allAudited ? [] : await claimedRows(db, 'tenant').findClaims(['id'], {});
    const unaudited = others.map(({ id }) => id).filter((id) => !this.#auditedAtMs.has(id));
    if (unaudited.length === 0) this.#allAudited = true;
    return [...new Set([...pending, ...due, ...unaudited])];
  }

  #listen(tenantId: string): void {
    if (this.#topics.has(tenantId)) return;
    const topic = this.#deps.bus.subscribe(tenantTopic(tenantId, leaseTopic), (sidecarId) => {
      // Anyone with access to the bus can ask, so only known live sidecars start a round.
      if (this.#live.get(tenantId)?.has(sidecarId) !== true) return;
      this.#asked.add(`${tenantId} ${sidecarId}`);
      void this.round();
    });
    this.#topics.set(tenantId, topic);
  }

  async #renewLeases(live: readonly LiveSidecar[]): Promise<void> {
    const asking = live.filter(({ tenantId, id }) => this.#asked.has(`${tenantId} ${id}`));
    // Forgets these requests: a sidecar that still needs a lease asks again.
    this.#asked.clear();
    const due = await withoutLease(this.#deps, live, this.#deps.clock.now());
    await forEachConcurrently(new Set([...asking, ...due]), (sidecar) =>
      this.#attempt(`lease ${sidecar.id}`, async () => {
        await renewLease(this.#deps, sidecar, { asked: asking.includes(sidecar) });
      }),
    );
  }

  async #serve(tenantId: string): Promise<void> {
    await this.#attempt(`tenant ${tenantId}`, async () => {
      const { signingKeys, clock } = this.#deps;
      const keys = await syncKeys(signingKeys, tenantId);
      await this.#audit(tenantId, keys.verification);
      const publishPending = () => publishPendingSections(this.#deps, tenantId, keys);
      await publishPending();
      if (!this.#live.has(tenantId)) return;
      this.#servedAtMs.set(tenantId, clock.monotonic());
      const notWithinMs = this.#roundMs * 0.9;
      await beat(this.#deps, { tenantId, keys, notWithinMs, publishPending });
    });
  }

  async #audit(tenantId: string, keys: VerificationKeys): Promise<void> {
    const { bus, clock } = this.#deps;
    const live = this.#live.get(tenantId) ?? new Set();
    const nowMs = clock.monotonic();
    const due = nowMs - (this.#auditedAtMs.get(tenantId) ?? -Infinity) >= this.#auditMs;
    // If the heartbeat is missing on the bus, the bus was flushed.
    if (!due && (live.size === 0 || (await bus.read(tenantId, heartbeatSection)) !== undefined)) {
      return;
    }
    await auditBus(this.#deps, { tenantId, sidecarIds: [...live], keys });
    this.#auditedAtMs.set(tenantId, nowMs);
  }

  /**
   * Runs work whose failure must not affect other tenants. Logs only the first failure of a series.
   */
  async #attempt(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (this.#failing.delete(what)) this.#deps.log.info({ what }, 'publishing works again');
    } catch (error) {
      if (this.#failing.has(what)) return;
      this.#failing.add(what);
      this.#deps.log.error({ err: error, what }, 'publishing failed; the next round retries');
    }
  }
}
