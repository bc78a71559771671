import fs from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { systemClock } from '../shared/base/clock.ts';
import { describeFileError } from '../shared/base/file-error.ts';
import type { Log } from '../shared/base/log.ts';
import { programLog } from '../shared/base/program-log.ts';
import { runMain } from '../shared/base/run-main.ts';
import { ignoreInsecureTls, insecureTlsIgnored, SettingsError } from '../shared/base/settings.ts';
import type { Bus } from '../shared/bus/bus.ts';
import { openBus } from '../shared/bus/open.ts';
import { verificationKeys } from '../shared/crypto/signing-key.ts';
import { createGuard } from '../shared/upstream/address-guard.ts';
import { Closing } from './base/closing.ts';
import type { Identity } from './base/identity.ts';
import { buildEnforcement } from './boot/build-enforcement.ts';
import { followSectionKeys } from './boot/follow-section-keys.ts';
import { listen } from './boot/listen.ts';
import { lockDataDirectory } from './boot/lock-data-directory.ts';
import { noteRefusal } from './boot/note-refusal.ts';
import { openEvidence } from './boot/open-evidence.ts';
import { releaseMemory } from './boot/release-memory.ts';
import { setAsideRecords } from './boot/set-aside-records.ts';
import { stayEnrolled } from './boot/stay-enrolled.ts';
import { connectControlPlane } from './control-plane/client.ts';
import { enrol } from './control-plane/enrolment.ts';
import type { Enrolment } from './control-plane/enrolment-file.ts';
import { enrolByWorkload } from './control-plane/workload-enrolment.ts';
import { recordLife } from './records/sidecar-life.ts';
import { openReplica } from './replica/open-replica.ts';
import { type Config, ownPorts, readConfig } from './settings/config.ts';
import type { DecisionSink } from './telemetry/decision-log.ts';
import { openTracing } from './telemetry/open-tracing.ts';
import { startReports } from './telemetry/reports.ts';
import { logRevocation } from './telemetry/revocation.ts';
import { loadAuthority } from './tls/authority.ts';
import { trustBundle } from './tls/authority-file.ts';
import { writeTrustFiles } from './tls/trust-files.ts';

const version = '0.1.0';
/** Time after the drain to write and upload the last records. */
const lastStepsMs = 15_000;

export interface Sidecar {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** A PEM file of all authorities that an agent needs: the system's and the sidecar's own. */
  readonly caPath: string;
  readonly identity: Identity;
  /** Resolves when the control plane no longer knows the sidecar, or has revoked it. */
  readonly refused: Promise<void>;
  close(): Promise<void>;
}

interface SidecarOptions {
  /** The bus of the embedded mode; if undefined, the settings determine the bus. */
  readonly bus?: Bus;
  readonly log?: Log;
  /** Called with each decision when it is made. */
  readonly onDecision?: DecisionSink['onDecision'];
}

/** Starts the sidecar. If the start fails, everything that was opened is closed again. */
export async function startSidecar(config: Config, options: SidecarOptions = {}): Promise<Sidecar> {
  const closing = new Closing();
  try {
    return await build(config, { ...options, closing });
  } catch (error) {
    await closing.run();
    throw error;
  }
}

async function build(
  config: Config,
  {
    closing,
    bus: given,
    log = logFor(config),
    onDecision,
  }: SidecarOptions & { readonly closing: Closing },
): Promise<Sidecar> {
  const { dataDir } = config;
  closing.add(lockDataDirectory(dataDir));
  const enrolment = await enrolSidecar(config, log);
  const { identity } = enrolment;
  const { sidecarId } = identity;
  assertExpectedAgent(config, identity);
  const authority = loadAuthority({
    dataDir,
    clock: systemClock,
    permitted: config.permittedHosts,
  });
  const caPath = join(dataDir, 'ca.crt');
  const bundle = trustBundle(authority.certPem);
  fs.writeFileSync(caPath, bundle, { mode: 0o644 });
  if (config.trustBundleDirectory !== undefined) {
    writeTrustFiles(config.trustBundleDirectory, bundle);
  }

  const bus = given ?? (await openBus({ redisUrl: config.redisUrl, log, clock: systemClock }));
  if (given === undefined) closing.add(() => bus.close());
  const replica = await openReplica({
    bus,
    tenantId: identity.tenantId,
    sidecarId,
    sectionKeys: verificationKeys(enrolment.sectionKeys),
    maxStalenessMs: config.maxStalenessMs,
    clock: systemClock,
    log,
    snapshotFile: join(dataDir, 'snapshot.json'),
  });
  closing.add(() => replica.close());
  const connected = connectControlPlane({
    url: config.controlPlaneUrl,
    enrolment,
    clock: replica.clock,
  });
  const { controlPlane, refused } = noteRefusal(connected);
  const sectionKeys = followSectionKeys({ dataDir, enrolment, controlPlane, replica, log });
  const guard = createGuard({
    allowPrivate: config.allowPrivate,
    ownPorts: ownPorts(config),
  });
  const registry = new Registry();
  const agentSide = { connections: () => 0 };
  const base = {
    enrolment,
    authority,
    replica,
    bus,
    controlPlane,
    guard,
    registry,
    agentSide,
    log,
    onDecision,
    version,
    closing,
    stopping: new AbortController(),
    tracing: await openTracing({ settings: config.tracing, sidecarId, version, registry, log }),
  };
  closing.add(() => base.tracing?.close());
  const parts = { ...base, ...openEvidence(config, base) };
  recordLife(parts.spool, { identity, version, log, closing });
  closing.add(logRevocation({ replica, identity, log }));
  const deps = buildEnforcement(config, parts);
  const urls = await listen(config, deps, parts);
  const { spool } = parts;
  const { metrics } = deps;
  const onSectionKey = (kid: string) => sectionKeys.noteActive(kid);
  const report = { replica, spool, metrics, controlPlane, onSectionKey, version, log };
  const reports = startReports(report);
  closing.add(() => reports.close());
  return { ...urls, caPath, identity, refused, close: () => closing.run() };
}

/** Enrols with the service account token of the pod if there is one, otherwise with a token. */
function enrolSidecar(config: Config, log: Log): Promise<Enrolment> {
  const { dataDir, workloadTokenFile: tokenFile } = config;
  if (tokenFile === undefined) return enrol({ ...config, token: config.enrolmentToken, version });
  const onReplaced = (sidecarId: string | undefined) =>
    setAsideRecords({ dataDir, sidecarId, log });
  return enrolByWorkload({ ...config, tokenFile, version, log, onReplaced });
}

function assertExpectedAgent({ expectedAgentId }: Config, { agentId }: Identity): void {
  if (expectedAgentId === undefined || expectedAgentId === agentId) return;
  throw new SettingsError(
    `SALLYPORT_AGENT_ID is ${JSON.stringify(expectedAgentId)}, and this sidecar is enrolled for agent ${JSON.stringify(agentId)}. Correct the setting (in a pod: the annotation sallyport.io/agent), or enrol a sidecar for that agent.`,
  );
}

function logFor({ logLevel }: Config): Log {
  return programLog('sallyport-sidecar', logLevel);
}

async function main(): Promise<void> {
  const isInsecureTls = ignoreInsecureTls(process.env);
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  if (config.redisUrl === undefined) {
    throw new SettingsError(
      'REDIS_URL is missing: policies reach a sidecar through the Redis that its control plane uses.',
    );
  }
  const log = logFor(config);
  if (isInsecureTls) log.warn({}, insecureTlsIgnored);
  // As the first process of a container, this program ignores signals without a handler.
  const end = () => process.exit(0);
  process.on('SIGTERM', end);
  process.on('SIGINT', end);
  const start = async () => {
    const started = await startSidecar(config, { log });
    log.info({ proxy: started.proxyUrl, admin: started.adminUrl }, 'the sidecar listens');
    return started;
  };
  const isPod = config.workloadTokenFile !== undefined;
  const sidecar = isPod ? await stayEnrolled({ start, log, onFailure: endWith }) : await start();
  process.off('SIGTERM', end);
  process.off('SIGINT', end);
  endOnSignal(sidecar, { log, withinMs: config.limits.drainMs + lastStepsMs });
}

/**
 * The first signal starts the drain. A second signal, or a drain that takes too long, ends the
 * process at once; the evidence is already on disk.
 */
function endOnSignal(
  sidecar: Pick<Sidecar, 'close'>,
  { log, withinMs }: { readonly log: Log; readonly withinMs: number },
): void {
  let isEnding = false;
  const stop = () => {
    if (isEnding) process.exit(1);
    isEnding = true;
    log.info({}, 'the sidecar drains and ends');
    setTimeout(() => process.exit(1), withinMs).unref();
    sidecar.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

/** Runs the program. `start.ts` calls this function; it starts faster than this file run directly. */
export async function run(): Promise<void> {
  await main().catch(endWith);
  releaseMemory();
}

function endWith(error: Error): never {
  const text = error instanceof SettingsError ? error.message : describeFileError(error);
  process.stderr.write(`sallyport: ${text ?? error.stack}\n`);
  process.exit(1);
}

if (import.meta.main) runMain(run);
