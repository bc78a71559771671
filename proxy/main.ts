import fs from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { type BindingIndex, compileBindings } from '../shared/binding/match.ts';
import type { Bus } from '../shared/bus/bus.ts';
import { openBus } from '../shared/bus/open.ts';
import { systemClock } from '../shared/clock.ts';
import { verificationKeys } from '../shared/crypto/signing-key.ts';
import type { Log } from '../shared/log.ts';
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
import { type Authority, loadAuthority } from './tls/authority.ts';
import { trustBundle } from './tls/trust-bundle.ts';
import { createGuard } from './upstream/address-guard.ts';
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
  const controlPlane = connectControlPlane({ url: config.controlPlaneUrl, enrolment, clock: systemClock });
  const { spool } = openEvidence(config, { enrolment, controlPlane, log, closing });
  const deps = enforcement(config, { enrolment, authority, replica, bus, controlPlane, spool, log, closing });
  const urls = await listen(config, { deps, authority, log, closing });
  const reports = startReports({ replica, spool, controlPlane, version, log, clock: systemClock });
  closing.add(() => reports.close());
  return { ...urls, caPath, identity, close: () => closing.run() };
}

interface Parts {
  readonly enrolment: Enrolment;
  readonly authority: Authority;
  readonly replica: Replica;
  readonly bus: Bus;
  readonly controlPlane: ControlPlane;
  readonly spool: Spool;
  readonly log: Log;
  readonly closing: Closing;
}

function openEvidence(
  config: Config,
  { enrolment, controlPlane, log, closing }: Pick<Parts, 'enrolment' | 'controlPlane' | 'log' | 'closing'>,
): { readonly spool: Spool } {
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
  return { spool };
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
  const guard = createGuard({
    allowPrivate: config.allowPrivate.split(',').map((range) => range.trim()).filter((range) => range !== ''),
    ownPorts: ownPorts(config),
  });
  const forward = createForward({ guard, timeouts: { headersMs: config.upstreamTimeoutMs } });
  closing.add(() => forward.close());
  return {
    identity,
    replica,
    bus: parts.bus,
    controlPlane: parts.controlPlane,
    clock,
    log,
    live,
    liveDrift,
    credentials,
    spool,
    forward,
    guard,
    holdMs: config.holdMs,
    registry: new Registry(),
  };
}
