import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Bus, Subscription } from '../../shared/bus/bus.ts';
import { tenantTopic } from '../../shared/bus/tenant-keys.ts';
import { leaseTopic } from '../../shared/sync/sections.ts';
import { heartbeatSection } from '../../shared/sync/signed-heartbeat.ts';
import type { Origin, SectionStore } from './section-store.ts';

const retryMs = 250;
const askAgainMs = 250;

interface ReaderOptions {
  readonly bus: Bus;
  readonly tenantId: string;
  readonly sidecarId: string;
  readonly store: SectionStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after a section or heartbeat was accepted. */
  readonly onTaken: (name: string) => void;
}

/**
 * Keeps the store up to date with a tenant's sections on the bus, even if the bus or the control
 * plane restarts.
 */
export class BusReader {
  readonly #options: ReaderOptions;
  #following: Subscription | undefined;
  #retry: NodeJS.Timeout | undefined;
  #loading: Promise<boolean> | undefined;
  #loadAgain = false;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /**
   * Loads all sections, then follows changes; while the bus is unavailable, retries in the
   * background.
   */
  async open(): Promise<void> {
    await this.#load();
  }

  /** Loads all sections again. */
  reload(): void {
    if (!this.#closed) void this.#load();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#loading;
    await this.#following?.close();
  }

  /** Requests a lease if none is usable, at most once per `askAgainMs`. */
  askForLease(): void {
    const { bus, store, clock, tenantId, sidecarId } = this.#options;
    const nowMs = clock.monotonic();
    if (this.#closed || store.leases.usable || nowMs - this.#askedAtMs < askAgainMs) return;
    this.#askedAtMs = nowMs;
    // A failure is harmless, because the next heartbeat or call requests a lease again.
    bus.notify(tenantTopic(tenantId, leaseTopic), sidecarId).catch(() => {});
  }

  /** Runs one load at a time; a gap during a load causes another load. */
  async #load(): Promise<void> {
    if (this.#loading !== undefined) {
      this.#loadAgain = true;
      return;
    }
    this.#loading = this.#loadOnce();
    const loaded = await this.#loading;
    this.#loading = undefined;
    if (this.#closed) return;
    if (!loaded) {
      this.#retry = setTimeout(() => void this.#load(), retryMs);
    } else if (this.#loadAgain) {
      this.#loadAgain = false;
      await this.#load();
    }
  }

  async #loadOnce(): Promise<boolean> {
    const { bus, store, log, tenantId } = this.#options;
    try {
      const { sections, at } = await bus.load(tenantId, store.names);
      if (this.#closed) return true;
      const origin = this.#following === undefined ? 'found' : 'received';
      for (const name of store.names) this.#take(name, sections.get(name), origin);
      this.#following ??= bus.follow(tenantId, at, {
        wants: (name) => store.names.includes(name),
        onChange: ({ name, value }) => this.#take(name, value, 'received'),
        onGap: () => void this.#load(),
      });
      this.askForLease();
      return true;
    } catch (error) {
      log.debug({ err: error }, 'the replica could not be loaded; trying again');
      return false;
    }
  }

  #take(name: string, token: string | undefined, origin: Origin): void {
    const { store, onTaken } = this.#options;
    if (this.#closed || token === undefined || !store.take(name, token, origin)) return;
    onTaken(name);
    if (name === heartbeatSection) this.askForLease();
  }
}
