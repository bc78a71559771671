import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChangePublisher } from '../../../control-plane/core/change-publisher.ts';
import { OwnUsage } from '../../../control-plane/core/own-usage.ts';
import type { Services } from '../../../control-plane/core/services.ts';
import { createFeed, type FeedOptions } from '../../../control-plane/ledger/reading/feed.ts';
import { createLedger, type RunningLedger } from '../../../control-plane/ledger/sealing/ledger.ts';
import { reportForkedEnd } from '../../../control-plane/ledger/tree/fork.ts';
import { rollbackCallbacks } from '../../../control-plane/ledger/verification/rollback-callbacks.ts';
import { type Config, readConfig } from '../../../control-plane/platform/config/config.ts';
import { createRowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { createSigningKeys } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { openUpstream } from '../../../control-plane/platform/upstream/open-upstream.ts';
import { openKeys } from '../../../control-plane/platform/vault/open-keys.ts';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import { createPublisher } from '../../../control-plane/publishing/publisher-loop.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import { openBus } from '../../../shared/bus/open.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { type ManualClock, manualClock } from '../base/manual-clock.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { handSigned } from './hand-signed.ts';

export interface TestServices extends Services {
  readonly clock: ManualClock;
  /** The master key, for services that share the database. */
  readonly masterKey: Buffer;
  /** Closes everything and removes the data that was created. */
  close(): Promise<void>;
}

export interface TestServicesOptions {
  /**
   * Default: a separate database on the run's Postgres. `embedded`: PGlite in a separate folder.
   */
  readonly databaseUrl?: string | 'embedded';
  /** Default: a bus in the same process. */
  readonly redisUrl?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly log?: Log;
  /** Default: a clock that starts now and advances only when a test advances it. */
  readonly clock?: ManualClock;
  /** Authorities to trust for upstreams, or the test's own guard. */
  readonly upstream?: Parameters<typeof openUpstream>[1];
  readonly feed?: FeedOptions;
  /** Master key of 32 bytes. Services that share a database must also share it. */
  readonly masterKey?: Buffer;
}

/**
 * Starts services as in a running control plane. All parts are real except the clock. Rows that are
 * written through `db` are signed.
 */
export async function testServices(options: TestServicesOptions = {}): Promise<TestServices> {
  const { log = silentLog, clock = manualClock(Date.now()), redisUrl } = options;
  const isEmbedded = options.databaseUrl === 'embedded';
  const database =
    options.databaseUrl === undefined ? await freshDatabase() : { url: options.databaseUrl };
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-test-'));
  const config = testConfig({
    SALLYPORT_DATA_DIR: dataDir,
    ...(isEmbedded ? {} : { DATABASE_URL: database.url }),
    ...options.env,
  });
  const store = await openStore({ databaseUrl: config.databaseUrl, dataDir, log });
  const bus = await openBus({ redisUrl, log, clock });
  const { pool } = store;
  const { masterKey = randomBytes(32) } = options;
  const keyed = { ...config, masterKey: masterKey.toString('base64') };
  // If a control plane has already used this database, uses the root secret that is stored there.
  const { rowCount: known } = await pool.query('select 1 from vault_key');
  const vault = createVault(known === 0 ? masterKey : await openKeys(pool, keyed));
  const guard = createRowGuard({ pool, clock, log, vault });
  const db = handSigned(store.db, guard);
  const signingKeys = createSigningKeys({ db, vault, clock, guard });
  const feed = createFeed({ pool, bus, vault, log }, options.feed);
  const onSealed = (tenantId: string) => feed.sealed(tenantId);
  const onFork = (tenantId: string) =>
    void reportForkedEnd({ db, pool, vault, clock, log, ledger }, tenantId);
  const ledger: RunningLedger = createLedger({
    db,
    pool,
    signingKeys,
    clock,
    log,
    vault,
    onSealed,
    onFork,
    ...rollbackCallbacks(() => services),
  });
  const publisher = createPublisher({ db, bus, clock, log, vault, guard, signingKeys, ledger });
  const upstream = openUpstream(config, options.upstream);
  const services: TestServices = {
    masterKey,
    config,
    clock,
    log,
    db,
    pool,
    bus,
    vault,
    guard,
    signingKeys,
    ledger,
    feed,
    publisher,
    upstream,
    usage: new OwnUsage(clock),
    close: async () => {
      await feed.close();
      await upstream.close();
      await publisher.close();
      await ledger.close();
      await bus.close();
      await store.close();
      await rm(dataDir, { recursive: true, force: true });
      if ('drop' in database) await database.drop();
    },
  };
  return services;
}

/** Returns the configuration that results from the given environment. */
export function testConfig(env: Readonly<Record<string, string>> = {}): Config {
  return readConfig({ env, readFile: (path) => readFileSync(path, 'utf8') });
}

/** Returns the events of a tenant in the order in which they were recorded, sealed events first. */
export async function eventsOf(
  { db }: Pick<Services, 'db'>,
  tenantId: string,
): Promise<readonly EvidenceEvent[]> {
  // Reads the waiting events first: an event that is sealed in the meantime is then read twice
  // instead of missed.
  const waiting = await db.eventOutbox.findMany({ where: { tenantId }, orderBy: { id: 'asc' } });
  const rows = await db.evidenceRow.findMany({ where: { tenantId }, orderBy: { position: 'asc' } });
  const texts = [...rows.map(({ canonical }) => canonical), ...waiting.map(({ event }) => event)];
  const events = texts.map((text) => JSON.parse(text) as EvidenceEvent);
  const seen = new Set<string>();
  return events.filter(({ id }) => !seen.has(id) && seen.add(id));
}

/**
 * Returns the same services, and a list. The list records, in order, each section that their use
 * cases change, as `<tenant> <section>`.
 */
export function watchSections<Given extends Services>(
  services: Given,
): { readonly watched: Given; readonly moved: string[] } {
  const moved: string[] = [];
  const { publisher } = services;
  const watching: ChangePublisher = {
    changed: (tx, tenantId, ...sections) => {
      moved.push(...sections.map((section) => `${tenantId} ${section}`));
      return publisher.changed(tx, tenantId, ...sections);
    },
    nudge: () => publisher.nudge(),
  };
  return { watched: { ...services, publisher: watching }, moved };
}
