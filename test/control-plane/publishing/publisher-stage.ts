import { Redis } from 'ioredis';
import type { Store } from '../../../control-plane/platform/store/open.ts';
import type {
  PublisherDeps,
  RunningPublisher,
} from '../../../control-plane/publishing/publisher-loop.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import type { SectionName } from '../../../shared/sync/sections.ts';
import { openHeartbeat } from '../../../shared/sync/signed-heartbeat.ts';
import { openSection } from '../../../shared/sync/signed-section.ts';
import { openTestStore, SyncWorld } from '../../support/control-plane/sync-world.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';

interface Servers {
  readonly redis: TestRedis;
  /** Another client's connection to the same Redis. */
  readonly attacker: Redis;
  readonly database: Awaited<ReturnType<typeof freshDatabase>>;
  readonly store: Store;
}

/** One database and one Redis, with a new tenant and a new connection for each test. */
export class PublisherStage {
  readonly redis: TestRedis;
  readonly attacker: Redis;
  readonly store: Store;
  readonly #database: Servers['database'];
  readonly #ending: (() => Promise<unknown>)[] = [];
  #begun: { readonly bus: Bus; readonly world: SyncWorld } | undefined;
  tenants = 0;

  private constructor({ redis, attacker, database, store }: Servers) {
    this.redis = redis;
    this.attacker = attacker;
    this.store = store;
    this.#database = database;
  }

  static async open(): Promise<PublisherStage> {
    const redis = await startRedis();
    const attacker = new Redis(redis.url);
    // Some tests stop the Redis server. Its clients then report errors and reconnect by themselves.
    attacker.on('error', () => {});
    const database = await freshDatabase();
    const store = await openTestStore(database.url);
    return new PublisherStage({ redis, attacker, database, store });
  }

  async close(): Promise<void> {
    this.attacker.disconnect();
    await this.store.close();
    await this.#database.drop();
    await this.redis.stop();
  }

  /** Opens the bus and creates the tenant of a test. Call it before each test. */
  async begin(): Promise<void> {
    const { store } = this;
    const bus = await openBus({ redisUrl: this.redis.url, log: silentLog, clock: systemClock });
    // All tests share one database, so the sidecars of earlier tests must have no effect.
    await store.db.sidecar.updateMany({ data: { revokedAt: new Date() } });
    this.tenants += 1;
    const world = await SyncWorld.open({ store, bus, tenantId: `tenant-${this.tenants}` });
    this.#begun = { bus, world };
  }

  /** Ends the publishers of the test and closes the bus. Call it after each test. */
  async end(): Promise<void> {
    for (const end of this.#ending.splice(0).reverse()) await end();
    await this.bus.close();
  }

  endWith(end: () => Promise<unknown>): void {
    this.#ending.push(end);
  }

  get bus(): Bus {
    return this.#test().bus;
  }

  get world(): SyncWorld {
    return this.#test().world;
  }

  publisher(change: Partial<PublisherDeps> = {}): RunningPublisher {
    const running = this.world.publisher(change);
    this.endWith(() => running.close());
    return running;
  }

  async replica(sidecarId: string): Promise<Replica> {
    const opened = await this.world.replica(sidecarId);
    this.endWith(() => opened.close());
    return opened;
  }

  /** Reads a section from the bus and verifies it. */
  async onBus<Name extends SectionName>(name: Name) {
    const { tenantId } = this.world;
    const token = (await this.bus.read(tenantId, name)) ?? '';
    const expected = { tenant: tenantId, section: name };
    const opened = openSection(token, await this.world.sectionKeys(), expected);
    if (!opened.ok) throw new Error(`${name}: ${opened.detail}`);
    return { ...opened.envelope, token };
  }

  async heartbeat() {
    const { tenantId } = this.world;
    const token = (await this.bus.read(tenantId, 'heartbeat')) ?? '';
    const opened = openHeartbeat(token, await this.world.sectionKeys(), { tenant: tenantId });
    if (!opened.ok) throw new Error(opened.detail);
    return opened.heartbeat;
  }

  /** Returns the state of a section in the database. */
  async row(name: string) {
    const rows = await this.world.versions();
    return rows.find((one) => one.name === name);
  }

  #test(): { readonly bus: Bus; readonly world: SyncWorld } {
    if (this.#begun === undefined) throw new Error('No test has begun.');
    return this.#begun;
  }
}

/** Returns a policy that denies all actions and differs for each version. */
export const denyAll = (version: number) => ({
  id: `deny-${version}`,
  version,
  rules: [
    {
      name: 'never',
      decision: 'deny' as const,
      reason: 'not.today',
      when: { all: [{ path: 'tool.name', operator: '!=' as const, value: 'x' }] },
    },
  ],
});
