import fs from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import type { Bus } from '../shared/bus/bus.ts';
import { openBus } from '../shared/bus/open.ts';
import { systemClock } from '../shared/clock.ts';
import { verificationKeys } from '../shared/crypto/signing-key.ts';
import { gatherLines, type Log } from '../shared/log.ts';
import { ignoreInsecureTls, insecureTlsIgnored, SettingsError } from '../shared/settings.ts';
import { sidecarSection } from '../shared/sync/sections.ts';
import { Closing } from './closing.ts';
import { type Config, readConfig } from './config.ts';
import { type ControlPlane, connectControlPlane } from './control-plane.ts';
import { recognitionOf } from './enforce/bindings-in-force.ts';
import type { EnforceDeps } from './enforce/deps.ts';
import { internalFacts } from './enforce/internal-facts.ts';
import { LiveCalls } from './enforce/live-calls.ts';
import { LiveDrift } from './enforce/live-drift.ts';
import { isOutOfReach } from './enforce/out-of-reach.ts';
import { Places } from './enforce/places.ts';
import { toolReportRecord } from './enforce/record.ts';
import { recordLife } from './enforce/record-life.ts';
import { Underway } from './enforce/underway.ts';
import { UsedPassports } from './enforce/used-passports.ts';
import { type Enrolment, enrol, pinSectionKey } from './enrolment.ts';
import type { Spool } from './evidence/spool.ts';
import type { Uploader } from './evidence/uploader.ts';
import { lockFolder } from './folder-lock.ts';
import type { Identity } from './identity.ts';
import { listen } from './listen.ts';
import { openEvidence } from './open-evidence.ts';
import { Credentials } from './replica/credentials.ts';
import { OpenedApprovals } from './replica/opened-approvals.ts';
import { openReplica, type Replica } from './replica/replica.ts';
import { SectionKeys } from './replica/section-keys.ts';
import { createDecisionMetrics } from './telemetry/decision-metrics.ts';
import { createEvidenceMetrics } from './telemetry/evidence-metrics.ts';
import { openTracing } from './telemetry/open-tracing.ts';
import { startReports } from './telemetry/reports.ts';
import { createStateMetrics } from './telemetry/state-metrics.ts';
import type { Tracing } from './telemetry/tracing.ts';
import { createTrafficMetrics } from './telemetry/traffic-metrics.ts';
import { type Authority, loadAuthority } from './tls/authority.ts';
import { trustBundle } from './tls/trust-bundle.ts';
import { createGuard, type Guard } from './upstream/address-guard.ts';
import { createForward } from './upstream/forward.ts';
import { createTunnelUpgrade } from './upstream/passthrough.ts';

const version = '0.1.0';
/** After the drain: last records, and their upload. */
const lastStepsMs = 15_000;

export interface Sidecar {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  /** A file of all authorities that an agent needs: the system's and the sidecar's own. */
  readonly caPath: string;
  readonly identity: Identity;
  close(): Promise<void>;
}

interface SidecarOptions {
  /** The bus of the embedded mode; without it the settings say which. */
  readonly bus?: Bus;
  readonly log?: Log;
}

/** Builds the sidecar and listens; what was begun before a failure is closed again. */
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
  { closing, bus: given, log = logFor(config) }: SidecarOptions & { readonly closing: Closing },
): Promise<Sidecar> {
  const { dataDir } = config;
  closing.add(await lockFolder(dataDir));
  const enrolment = await enrol({ ...config, token: config.enrolmentToken, version });
  const { identity } = enrolment;
  const { sidecarId } = identity;
  const authority = loadAuthority({
    dataDir,
    clock: systemClock,
    permitted: config.permittedHosts,
  });
  const caPath = join(dataDir, 'ca.crt');
  fs.writeFileSync(caPath, trustBundle(authority.certPem), { mode: 0o644 });

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
  const controlPlane = connectControlPlane({
    url: config.controlPlaneUrl,
    enrolment,
    clock: replica.clock,
  });
  const sectionKeys = followSectionKeys({ dataDir, enrolment, controlPlane, replica, log });
  const guard = createGuard({
    allowPrivate: listOf(config.allowPrivate),
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
    closing,
    stopping: new AbortController(),
    tracing: await openTracing({ settings: config.tracing, sidecarId, version, registry, log }),
  };
  closing.add(() => base.tracing?.close());
  const parts = { ...base, ...openEvidence(config, base) };
  recordLife(parts.spool, { identity, version, log, closing });
  const deps = enforcement(config, parts);
  const urls = await listen(config, deps, parts);
  const { spool } = parts;
  const { metrics } = deps;
  const onSectionKey = (kid: string) => sectionKeys.noteActive(kid);
  const report = { replica, spool, metrics, controlPlane, onSectionKey, version, log };
  const reports = startReports(report);
  closing.add(() => reports.close());
  return { ...urls, caPath, identity, close: () => closing.run() };
}

function followSectionKeys({
  dataDir,
  enrolment,
  controlPlane,
  replica,
  log,
}: Pick<Parts, 'enrolment' | 'controlPlane' | 'replica' | 'log'> & {
  readonly dataDir: string;
}): SectionKeys {
  const sectionKeys = new SectionKeys({
    tenantId: enrolment.identity.tenantId,
    pinned: enrolment.sectionKeys,
    fetch: controlPlane.keySuccession,
    pin: (key) => pinSectionKey(dataDir, key),
    onChange: (keys) => replica.trust(keys),
    clock: systemClock,
    log,
  });
  replica.onUnknownSigner(() => sectionKeys.follow());
  return sectionKeys;
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

interface Parts {
  readonly enrolment: Enrolment;
  readonly authority: Authority;
  readonly replica: Replica;
  readonly bus: Bus;
  readonly controlPlane: ControlPlane;
  readonly guard: Guard;
  readonly registry: Registry;
  /** Connections of the agent; told once the ingress stands. */
  readonly agentSide: { connections: () => number };
  readonly tracing: Tracing | undefined;
  readonly spool: Spool;
  readonly uploader: Uploader;
  readonly log: Log;
  readonly closing: Closing;
  readonly stopping: AbortController;
}

function enforcement(config: Config, parts: Parts): EnforceDeps {
  const { replica, spool, log, closing } = parts;
  const { identity } = parts.enrolment;
  const { limits } = config;
  const { clock } = replica;
  const live = new LiveCalls();
  const liveDrift = new LiveDrift({
    replica,
    isOutOfReach: (tool) => isOutOfReach(tool, { replica, identity, clock }),
    report: (report) => {
      spool.append(toolReportRecord(report, { identity, clock })).catch((err) => {
        log.error({ err, tool: report.tool }, 'a changed tool could not be recorded');
      });
    },
  });
  const credentials = new Credentials({
    fetch: parts.controlPlane.credentials,
    currentVersion: () => replica.credentialsVersion,
    log,
  });
  for (const section of ['tenant', sidecarSection(identity.sidecarId)] as const) {
    replica.onChange(section, () => void credentials.refresh());
  }
  replica.onChange('revocations', () => {
    const revocation = replica.revocationOf(identity.agentId);
    if (revocation === undefined) return;
    credentials.drop();
    const ended = live.endAll(revocation);
    log.warn({ ended, reason_code: revocation }, 'a revocation ended calls under way');
  });
  closing.add(() => credentials.drop());
  replica.onChange('tools', () => liveDrift.toolsChanged());
  const openedApprovals = new OpenedApprovals(replica, identity.sidecarId);
  replica.onChange('kill_switches', () => {
    const ended = live.endBlocked(replica.killSwitches, clock.now());
    if (ended > 0) log.warn({ ended }, 'a kill switch ended calls under way');
  });
  const forward = createForward({
    guard: parts.guard,
    timeouts: {
      connectMs: limits.upstreamConnectMs,
      headersMs: limits.upstreamTimeoutMs,
      bodyIdleMs: limits.upstreamIdleMs,
    },
  });
  closing.add(() => forward.close());
  watchState(config, { ...parts, credentials });
  const places = {
    tunnels: new Places(limits.tunnelsMax, 'proxy.too_many_tunnels'),
    held: new Places(limits.heldCallsMax, 'proxy.too_many_held'),
  };
  return {
    identity,
    replica,
    clock,
    log,
    live,
    liveDrift,
    spentApprovals: new Set(),
    usedPassports: new UsedPassports(),
    openingApprovals: new Map(),
    openedApprovals,
    credentials,
    spool,
    forward,
    tunnelUpgrade: createTunnelUpgrade({
      guard: parts.guard,
      handshakeMs: limits.upstreamTimeoutMs,
      idleMs: limits.tunnelIdleMs,
    }),
    ...places,
    bus: parts.bus,
    controlPlane: parts.controlPlane,
    holdMs: config.holdMs,
    stopping: parts.stopping.signal,
    underway: new Underway(),
    metrics: createDecisionMetrics(parts.registry, { live, ...places, clock }),
    tracing: parts.tracing,
    traffic: createTrafficMetrics(parts.registry, {
      ingress: { connections: () => parts.agentSide.connections() },
      authority: parts.authority,
    }),
    recognition: recognitionOf({ replica, liveDrift, bodyBytesMax: limits.bodyBytesMax }),
    internal: internalFacts({ replica, openedApprovals, identity, authority: parts.authority }),
  };
}

function watchState(
  { spoolBytesMax }: Config,
  { registry, replica, ...parts }: Parts & { readonly credentials: Credentials },
): void {
  const { clock } = replica;
  createEvidenceMetrics(registry, { ...parts, bytesMax: spoolBytesMax, clock });
  createStateMetrics(registry, { ...parts, replica, clock, version });
}

/** Our own ports on this machine are no place for an agent to go, whatever policy says. */
function ownPorts({ controlPlaneUrl }: Config): number[] {
  const { protocol, port } = new URL(controlPlaneUrl);
  return [Number(port) || (protocol === 'https:' ? 443 : 80)];
}

function logFor({ logLevel }: Config): Log {
  return pino(
    { name: 'sallyport-sidecar', level: logLevel },
    gatherLines(pino.destination({ dest: 2, sync: true })),
  );
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
  const sidecar = await startSidecar(config, { log });
  log.info({ proxy: sidecar.proxyUrl, admin: sidecar.adminUrl }, 'the sidecar listens');
  endOnSignal(sidecar, { log, withinMs: config.limits.drainMs + lastStepsMs });
}

/** A first signal drains; a second one, or time running out, ends at once: evidence is on disk. */
function endOnSignal(
  sidecar: Sidecar,
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

/** Runs the program: `start.ts` does, faster and in less memory than this file run by itself. */
export function run(): Promise<void> {
  return main().catch((error: Error) => {
    const text = error instanceof SettingsError ? error.message : error.stack;
    process.stderr.write(`sallyport: ${text}\n`);
    process.exit(1);
  });
}

if (import.meta.main) await run();
