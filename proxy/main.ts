import fs from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { type BindingIndex, compileBindings } from '../shared/binding/match.ts';
import type { Bus } from '../shared/bus/bus.ts';
import { openBus } from '../shared/bus/open.ts';
import { systemClock } from '../shared/clock.ts';
import { verificationKeys } from '../shared/crypto/signing-key.ts';
import { type Log, logBuffer } from '../shared/log.ts';
import { SettingsError } from '../shared/settings.ts';
import { sidecarSection } from '../shared/sync/sections.ts';
import { type Config, readConfig } from './config.ts';
import { type ControlPlane, connectControlPlane } from './control-plane.ts';
import { agentManifest } from './enforce/agent-manifest.ts';
import type { EnforceDeps } from './enforce/deps.ts';
import { enforce } from './enforce/enforce.ts';
import type { Identity } from './enforce/judge.ts';
import { LiveCalls } from './enforce/live-calls.ts';
import { LiveDrift } from './enforce/live-drift.ts';
import { driftRecord } from './enforce/record.ts';
import { enforceTunnel } from './enforce/tunnels.ts';
import { type Enrolment, enrol } from './enrolment.ts';
import { Spool } from './evidence/spool.ts';
import { Uploader } from './evidence/uploader.ts';
import { createIngress } from './ingress/ingress.ts';
import { limitsByDefault } from './recognise/recognise.ts';
import { Credentials } from './replica/credentials.ts';
import { openReplica, type Replica } from './replica/replica.ts';
import { createAdmin } from './telemetry/admin.ts';
import { createDecisionMetrics } from './telemetry/decision-metrics.ts';
import { startReports } from './telemetry/reports.ts';
import { createTrafficMetrics } from './telemetry/traffic-metrics.ts';
import { type Authority, loadAuthority } from './tls/authority.ts';
import { trustBundle } from './tls/trust-bundle.ts';
import { createGuard, type Guard } from './upstream/address-guard.ts';
import { createForward } from './upstream/forward.ts';

const version = '0.1.0';
const drainMs = 10_000;

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

/** Closes what was opened, last first. */
class Closing {
  readonly #steps: (() => Promise<void> | void)[] = [];

  add(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  async run(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) await step();
  }
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
  const enrolment = await enrol({ ...config, token: config.enrolmentToken, version });
  const { identity } = enrolment;
  const authority = loadAuthority({ dataDir, clock: systemClock });
  const caPath = join(dataDir, 'ca.crt');
  fs.writeFileSync(caPath, trustBundle(authority.certPem), { mode: 0o644 });

  const bus = given ?? (await openBus({ redisUrl: config.redisUrl, log, clock: systemClock }));
  if (given === undefined) closing.add(() => bus.close());
  const replica = await openReplica({
    bus,
    tenantId: identity.tenantId,
    sidecarId: identity.sidecarId,
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
    clock: systemClock,
  });
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
  };
  const parts = { ...base, spool: openEvidence(config, base) };
  const deps = enforcement(config, parts);
  const urls = await listen(config, deps, parts);
  const reports = startReports({ replica, spool: parts.spool, controlPlane, version, log });
  closing.add(() => reports.close());
  return { ...urls, caPath, identity, close: () => closing.run() };
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
  readonly spool: Spool;
  readonly log: Log;
  readonly closing: Closing;
}

function openEvidence(
  config: Config,
  { enrolment, controlPlane, log, closing }: Omit<Parts, 'spool'>,
): Spool {
  const spool = Spool.open({
    folder: join(config.dataDir, 'spool'),
    log,
    fsync: config.spoolFsync,
    bytesMax: config.spoolBytesMax,
  });
  closing.add(() => spool.close());
  const uploader = new Uploader({
    spool,
    sidecarId: enrolment.identity.sidecarId,
    key: enrolment.signingKey,
    upload: controlPlane.upload,
    log,
  });
  closing.add(() => uploader.close());
  return spool;
}

function enforcement(config: Config, parts: Parts): EnforceDeps {
  const { replica, spool, log, closing } = parts;
  const { identity } = parts.enrolment;
  const clock = systemClock;
  const live = new LiveCalls();
  const liveDrift = new LiveDrift({
    replica,
    report: (drift) => {
      spool.append(driftRecord(drift, { identity, clock })).catch((err) => {
        log.error({ err, tool: drift.tool }, 'a changed tool could not be recorded');
      });
    },
  });
  const credentials = new Credentials({
    fetch: parts.controlPlane.credentials,
    currentVersion: () => replica.credentialsVersion,
    log,
  });
  replica.onChange(sidecarSection(identity.sidecarId), () => void credentials.refresh());
  replica.onChange('kill_switches', () => {
    const ended = live.endBlocked(replica.killSwitches, clock.now());
    if (ended > 0) log.warn({ ended }, 'a kill switch ended calls under way');
  });
  const forward = createForward({
    guard: parts.guard,
    timeouts: { headersMs: config.upstreamTimeoutMs },
  });
  closing.add(() => forward.close());
  return {
    identity,
    replica,
    clock,
    log,
    live,
    liveDrift,
    spentApprovals: new Set(),
    credentials,
    spool,
    forward,
    bus: parts.bus,
    controlPlane: parts.controlPlane,
    holdMs: config.holdMs,
    metrics: createDecisionMetrics(parts.registry, { replica, spool, live }),
    traffic: createTrafficMetrics(parts.registry, {
      ingress: { connections: () => parts.agentSide.connections() },
      authority: parts.authority,
    }),
    recognition: recognitionOf(replica, liveDrift),
    internal: {
      approval: (id) => {
        const approval = replica.approvalById(id);
        return (
          approval && {
            status: approval.status,
            expiresAt: new Date(approval.expiresAtMs).toISOString(),
          }
        );
      },
      manifest: () => agentManifest({ replica, identity }),
      caCertificate: () => parts.authority.certPem,
    },
  };
}

/** Bindings are compiled once per change of their section. */
function recognitionOf(replica: Replica, liveDrift: LiveDrift): EnforceDeps['recognition'] {
  let index: BindingIndex | undefined;
  replica.onChange('bindings', () => {
    index = undefined;
  });
  return () => {
    index ??= compileBindings(replica.bindings);
    return {
      index,
      limits: limitsByDefault,
      toolHasOutputSchema: (tool) => liveDrift.hasOutputSchema(tool),
    };
  };
}

/** Opens the ports: the proxy for the agent, and the admin port for health and metrics. */
async function listen(
  config: Config,
  deps: EnforceDeps,
  parts: Parts,
): Promise<Pick<Sidecar, 'proxyUrl' | 'adminUrl'>> {
  const { authority, guard, log, registry, closing } = parts;
  const ingress = createIngress({
    authority,
    guard,
    log,
    token: config.proxyToken,
    handle: (exchange) => enforce(exchange, deps),
    passthrough: (host, port) => (isPassthrough(deps, host, port) ? 'tunnel' : 'intercept'),
    onTunnel: (tunnel) => enforceTunnel(tunnel, deps),
    onRefusal: ({ code }) => deps.metrics.decided('deny', code),
  });
  const proxy = await ingress.listen(config.proxyPort, config.proxyHost);
  parts.agentSide.connections = () => ingress.connections();
  closing.add(() => ingress.close(drainMs));
  const admin = await createAdmin({
    port: config.adminPort,
    host: config.proxyHost,
    registry,
    caPem: authority.certPem,
    ready: async () => readiness(deps.replica),
  });
  closing.add(() => admin.close());
  guard.ownPorts.add(proxy.port);
  guard.ownPorts.add(admin.port);
  const host = config.proxyHost.includes(':') ? `[${config.proxyHost}]` : config.proxyHost;
  return { proxyUrl: `http://${host}:${proxy.port}`, adminUrl: `http://${host}:${admin.port}` };
}

/** Without a verified snapshot no host is known to be one: it is read, and refused in good form. */
function isPassthrough(deps: EnforceDeps, host: string, port: number): boolean {
  try {
    return deps.recognition().index.forHost(host, port)?.passthrough !== undefined;
  } catch {
    return false;
  }
}

function readiness(replica: Replica): {
  readonly ready: boolean;
  readonly reasons: readonly string[];
} {
  const { fresh, reason } = replica.freshness();
  return { ready: fresh, reasons: reason === undefined ? [] : [reason] };
}

/** Our own ports on this machine are no place for an agent to go, whatever policy says. */
function ownPorts({ controlPlaneUrl }: Config): number[] {
  const { protocol, port } = new URL(controlPlaneUrl);
  return [Number(port) || (protocol === 'https:' ? 443 : 80)];
}

function logFor({ logLevel }: Config): Log {
  return pino(
    { name: 'sallyport-sidecar', level: logLevel },
    pino.destination({ dest: 2, ...logBuffer }),
  );
}

async function main(): Promise<void> {
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const sidecar = await startSidecar(config);
  const stop = () => {
    sidecar.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

if (import.meta.main) {
  main().catch((error: Error) => {
    const text = error instanceof SettingsError ? error.message : error.stack;
    process.stderr.write(`sallyport: ${text}\n`);
    process.exit(1);
  });
}
