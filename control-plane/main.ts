import fs from 'node:fs';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { systemClock } from '../shared/base/clock.ts';
import { describeFileError } from '../shared/base/file-error.ts';
import { formatAuthority } from '../shared/base/host.ts';
import type { Log } from '../shared/base/log.ts';
import { programLog } from '../shared/base/program-log.ts';
import { ignoreInsecureTls, insecureTlsIgnored, SettingsError } from '../shared/base/settings.ts';
import type { Bus } from '../shared/bus/bus.ts';
import { openBus } from '../shared/bus/open.ts';
import { startExpirySweep } from './approvals/expire-approvals.ts';
import { OwnUsage } from './core/own-usage.ts';
import type { Services } from './core/services.ts';
import { signOldRows } from './integrity/baseline.ts';
import { signOldOutbox } from './integrity/outbox-baseline.ts';
import { startIntegritySweep } from './integrity/sweep.ts';
import { startCheckpointRounds } from './ledger/anchoring/checkpoint-rounds.ts';
import { createFeed } from './ledger/reading/feed.ts';
import { createLedger } from './ledger/sealing/ledger.ts';
import { reportForkedEnd } from './ledger/tree/fork.ts';
import { rollbackCallbacks } from './ledger/verification/rollback-callbacks.ts';
import { startSelfVerification } from './ledger/verification/self-verify.ts';
import { startDeliveryWorker } from './notifications/drain-deliveries.ts';
import { channelsOf } from './notifications/routes.ts';
import { openClaimStore, sweepClaims } from './passports/claim-store.ts';
import { recordMinters } from './platform/access/minters.ts';
import { type Config, readConfig } from './platform/config/config.ts';
import { sweepIdempotency } from './platform/http/idempotency.ts';
import { createRowGuard } from './platform/integrity/row-guard.ts';
import { createSigningKeys } from './platform/signing-keys/signing-keys.ts';
import { openStore, type Store } from './platform/store/open.ts';
import { StoreError } from './platform/store/store-error.ts';
import { createForgeryMeter } from './platform/telemetry/forgery-metrics.ts';
import { createSealMeter } from './platform/telemetry/seal-metrics.ts';
import { openUpstream } from './platform/upstream/open-upstream.ts';
import { holdKeys } from './platform/vault/hold-keys.ts';
import { KmsError } from './platform/vault/kms/kms-error.ts';
import { noteRowsSigned, type OpenKeys, openKeys } from './platform/vault/open-keys.ts';
import { createVault } from './platform/vault/vault.ts';
import { createPublisher } from './publishing/publisher-loop.ts';
import { serve } from './serve.ts';
import { createStateMetrics } from './telemetry/state-metrics.ts';
import { ensureDevelopmentTenants } from './tenants/create-tenant.ts';
import { sweepUsage } from './usage/read-usage.ts';
import { startPodCollection } from './workloads/collect-pods.ts';

const version = '0.1.0';

export interface ControlPlane {
  /** `http://<host>:<port>`; the API is below `/api`. */
  readonly origin: string;
  readonly bus: Bus;
  readonly services: Services;
  close(): Promise<void>;
}

/** Builds and starts the control plane. If a step fails, closes everything that was opened. */
export async function startControlPlane(
  config: Config,
  log: Log = logFor(config),
): Promise<ControlPlane> {
  const registry = new Registry();
  const { services, close: closeServices } = await openServices(config, log, { registry });
  createStateMetrics(registry, services, version);
  try {
    await ensureDevelopmentTenants(services);
    const { server, ports, close: closeServers } = await serve(services, registry);
    for (const port of ports) services.upstream.guard.ownPorts.add(port);
    const integrity = await startIntegritySweep(services);
    const sweep = startExpirySweep(services);
    const pods = startPodCollection(services);
    const deliveries = startDeliveryWorker(services, channelsOf(services));
    const checkpoints = startCheckpointRounds(services);
    const verification = startSelfVerification(services);
    const hourly = setInterval(() => void deleteExpired(services), 3_600_000).unref();
    const close = async () => {
      clearInterval(hourly);
      await integrity.close();
      await sweep.close();
      await pods.close();
      await checkpoints.close();
      await deliveries.close();
      await verification.close();
      // Ends the streams, because they never end by themselves. Their clients resume at another
      // process.
      await services.feed.close();
      await closeServers();
      await closeServices();
    };
    return { origin: originOf(config, server), bus: services.bus, services, close };
  } catch (error) {
    await closeServices();
    throw error;
  }
}

interface OpenOptions {
  readonly registry?: Registry;
  /**
   * False for the command that replaces master keys, because that command waits until every holder
   * uses the new key.
   */
  readonly isHolder?: boolean;
}

interface OpenServices {
  readonly services: Services;
  readonly keys: OpenKeys;
  close(): Promise<void>;
}

/** Builds the services without the server, also for administration from the command line. */
export async function openServices(
  config: Config,
  log: Log = logFor(config),
  { registry = new Registry(), isHolder = true }: OpenOptions = {},
): Promise<OpenServices> {
  const clock = systemClock;
  const store = await openStore({ databaseUrl: config.databaseUrl, dataDir: config.dataDir, log });
  const { keys, holding } = await openVault(store, config, { log, isHolder });
  const vault = createVault(keys);
  const { db, pool } = store;
  const forgeryMeter = createForgeryMeter(registry);
  const guard = createRowGuard({ pool, clock, log, vault, meter: forgeryMeter });
  // Signs existing rows before anything reads them, because unsigned rows count as forged.
  const signing = signExistingRows({ db, clock, guard, vault, log, pool }, keys);
  await signing
    .then(() => recordMinters({ db, config, guard }))
    .catch(async (error) => {
      await holding?.close();
      await store.close();
      throw error;
    });
  const { redisUrl } = config;
  const claims = redisUrl === undefined ? await openClaimStore({ db, clock }) : undefined;
  const bus = await openBus({ redisUrl, log, clock, claims });
  const signingKeys = createSigningKeys({ db, vault, clock, guard });
  const feed = createFeed({ pool, bus, vault, log });
  const ledger = createLedger({
    db,
    pool,
    signingKeys,
    clock,
    log,
    vault,
    forgeryMeter,
    meter: createSealMeter(registry),
    onSealed: (tenantId) => feed.sealed(tenantId),
    onFork: (tenantId) => void reportForkedEnd(services, tenantId),
    ...rollbackCallbacks(() => services),
  });
  const publisher = createPublisher({ clock, log, db, bus, vault, guard, signingKeys, ledger });
  const upstream = openUpstream(config);
  const state = { config, clock, log, db, pool, bus, vault, guard, usage: new OwnUsage(clock) };
  const services = { ...state, signingKeys, ledger, feed, publisher, upstream };
  const close = async () => {
    await feed.close();
    await upstream.close();
    await publisher.close();
    await ledger.close();
    await bus.close();
    await holding?.close();
    await store.close();
  };
  return { services, keys, close };
}

async function signExistingRows(
  services: Parameters<typeof signOldRows>[0] & Pick<Services, 'pool'>,
  keys: OpenKeys,
): Promise<void> {
  if (keys.areRowsSigned && keys.isOutboxSigned) return;
  if (!keys.areRowsSigned) await signOldRows(services);
  await signOldOutbox(services);
  await noteRowsSigned(services.pool, keys);
}

/**
 * Opens the vault's keys and registers this process as a holder of them. Closes the store on
 * failure.
 */
async function openVault(
  store: Store,
  config: Config,
  { log, isHolder }: { readonly log: Log; readonly isHolder: boolean },
) {
  const { pool } = store;
  try {
    const keys = await openKeys(pool, config);
    return { keys, holding: isHolder ? await holdKeys(keys, { pool, log }) : undefined };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/**
 * Deletes expired idempotency keys, usage counts and passport claims. If a sweep fails, the next
 * one retries.
 */
async function deleteExpired(services: Services): Promise<void> {
  try {
    await sweepIdempotency(services);
    await sweepUsage(services);
    await sweepClaims(services);
  } catch (err) {
    services.log.warn({ err }, 'could not delete expired idempotency keys, claims or usage');
  }
}

function originOf({ apiHost }: Config, server: { address(): AddressInfo | string | null }): string {
  const { port } = server.address() as AddressInfo;
  return `http://${formatAuthority({ host: apiHost, port })}`;
}

function logFor({ logLevel }: Config): Log {
  return programLog('sallyport-control-plane', logLevel);
}

async function main(): Promise<void> {
  const isInsecureTls = ignoreInsecureTls(process.env);
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const log = logFor(config);
  if (isInsecureTls) log.warn({}, insecureTlsIgnored);
  if (config.redisUrl === undefined) {
    log.warn({}, 'REDIS_URL is not set; sidecars in other processes receive no updates');
  }
  const controlPlane = await startControlPlane(config, log);
  log.info({ api: `${controlPlane.origin}/api` }, 'the control plane is ready');
  const stop = () => {
    controlPlane.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

if (import.meta.main) {
  main().catch((error: Error) => {
    const isOperators = [SettingsError, StoreError, KmsError].some((kind) => error instanceof kind);
    const message = isOperators ? error.message : describeFileError(error);
    process.stderr.write(`sallyport: ${message ?? error.stack}\n`);
    process.exit(1);
  });
}
