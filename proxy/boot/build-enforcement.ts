import type { Registry } from 'prom-client';
import type { DiskWatch } from '../../shared/base/disk-watch.ts';
import type { Log } from '../../shared/base/log.ts';
import { counter, gauge } from '../../shared/base/observed-metric.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { Closing } from '../base/closing.ts';
import { BufferBudget } from '../call/buffer-budget.ts';
import type { Tracing } from '../call/tracing.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { Enrolment } from '../control-plane/enrolment-file.ts';
import { CallsInFlight, StoppableCalls } from '../enforce/calls-in-flight.ts';
import { ConcurrencyLimit } from '../enforce/concurrency-limit.ts';
import { MissingCredentials } from '../enforce/credential.ts';
import type { EnforceDeps } from '../enforce/deps.ts';
import { UsedPassports } from '../enforce/presented-passport.ts';
import { internalFacts } from '../internal-host/internal-host.ts';
import { LiveDrift } from '../mcp/live-drift.ts';
import { StreamOpenings } from '../mcp/stream-openings.ts';
import { isUnreachable } from '../mcp/unreachable-tool.ts';
import { recognitionOf } from '../recognise/active-bindings.ts';
import { denialSummaryRecord, toolReportRecord } from '../records/call-records.ts';
import { type DenialSummary, DenialThrottle } from '../records/denial-throttle.ts';
import { Credentials } from '../replica/credentials.ts';
import { OpenedApprovals } from '../replica/opened-approvals.ts';
import type { Replica } from '../replica/replica.ts';
import { UsageCounter } from '../replica/usage-counter.ts';
import type { Config } from '../settings/config.ts';
import type { Spool } from '../spool/spool.ts';
import type { Uploader } from '../spool/uploader.ts';
import type { DecisionSink } from '../telemetry/decision-log.ts';
import { createDecisionMetrics } from '../telemetry/decision-metrics.ts';
import { createEvidenceMetrics } from '../telemetry/evidence-metrics.ts';
import { createStateMetrics } from '../telemetry/state-metrics.ts';
import { createTrafficMetrics } from '../telemetry/traffic-metrics.ts';
import type { Authority } from '../tls/authority.ts';
import { createForward } from '../upstream/forward.ts';
import { createTunnelUpgrade } from '../upstream/websocket-tunnel.ts';
import { followUsage } from './follow-usage.ts';

/** The parts that must be open before the sidecar can judge a call. */
export interface Parts {
  readonly enrolment: Enrolment;
  readonly authority: Authority;
  readonly replica: Replica;
  readonly bus: Bus;
  readonly controlPlane: ControlPlane;
  readonly guard: Guard;
  readonly registry: Registry;
  /** Counts the agent's connections; set when the ingress listens. */
  readonly agentSide: { connections: () => number };
  readonly tracing: Tracing | undefined;
  readonly spool: Spool;
  /** Watches the volume of the spool. */
  readonly disk: DiskWatch;
  readonly uploader: Uploader;
  readonly log: Log;
  readonly onDecision?: DecisionSink['onDecision'];
  /** The version of this program. */
  readonly version: string;
  readonly closing: Closing;
  readonly stopping: AbortController;
}

/** Builds the dependencies of enforcement, and adds everything that it opens to `closing`. */
export function buildEnforcement(config: Config, parts: Parts): EnforceDeps {
  const { replica, log } = parts;
  const { identity } = parts.enrolment;
  const { limits } = config;
  const { clock } = replica;
  const live = new StoppableCalls();
  const liveDrift = followDrift(parts);
  const credentials = followCredentials(parts);
  endWhatIsStopped(parts, live);
  const usage = countUsage(config, parts);
  const openedApprovals = new OpenedApprovals(replica, identity.sidecarId);
  const concurrency = {
    tunnels: new ConcurrencyLimit(limits.tunnelsMax, 'proxy.too_many_tunnels'),
    held: new ConcurrencyLimit(limits.heldCallsMax, 'proxy.too_many_held'),
  };
  return {
    identity,
    replica,
    clock,
    log,
    onDecision: parts.onDecision,
    live,
    liveDrift,
    consumedApprovals: new Set(),
    usedPassports: new UsedPassports(),
    usage,
    openingApprovals: new Map(),
    openedApprovals,
    credentials,
    missingCredentials: new MissingCredentials({ credentials, clock, log }),
    spool: parts.spool,
    denials: throttleDenials(config, parts),
    ...openUpstreams(config, parts),
    ...concurrency,
    bus: parts.bus,
    controlPlane: parts.controlPlane,
    holdMs: config.holdMs,
    holdMsMax: config.holdMsMax,
    stopping: parts.stopping.signal,
    streamOpenings: new StreamOpenings(),
    callsInFlight: new CallsInFlight(),
    ...measure(config, { ...parts, credentials, live, concurrency }),
    recognition: recognitionOf({
      replica,
      liveDrift,
      bodyBytesMax: limits.bodyBytesMax,
      buffers: boundBuffers(config, parts),
    }),
    internal: internalFacts({ ...parts, openedApprovals, identity, usage }),
  };
}

function countUsage({ maxStalenessMs }: Config, parts: Parts): UsageCounter {
  const { replica, closing } = parts;
  const counter = new UsageCounter({ clock: replica.clock, maxStalenessMs });
  const following = followUsage({ ...parts, counter });
  closing.add(() => following.close());
  return counter;
}

function followDrift({ replica, spool, log, enrolment: { identity } }: Parts): LiveDrift {
  const { clock } = replica;
  const liveDrift = new LiveDrift({
    replica,
    isUnreachable: (tool) => isUnreachable(tool, { replica, identity, clock }),
    report: (report) => {
      spool.append(toolReportRecord(report, { identity, clock })).catch((err) => {
        log.error({ err, tool: report.tool }, 'a changed tool could not be recorded');
      });
    },
  });
  replica.onChange('tools', () => liveDrift.toolsChanged());
  return liveDrift;
}

function boundBuffers({ limits }: Config, { registry }: Parts): BufferBudget {
  const buffers = new BufferBudget(limits.bufferBytesMax);
  gauge(
    registry,
    { name: 'sallyport_buffered_bytes', help: 'Bytes of request bodies that calls hold in memory' },
    () => buffers.used,
  );
  return buffers;
}

function throttleDenials({ limits }: Config, parts: Parts): DenialThrottle {
  const { replica, spool, log, registry, closing } = parts;
  const { identity } = parts.enrolment;
  const { clock } = replica;
  const report = async (summary: DenialSummary) => {
    const { total, counts } = summary;
    log.warn({ total, denied: Object.fromEntries(counts) }, 'denied calls were throttled');
    await spool.append(denialSummaryRecord(summary, { identity, clock }));
  };
  const { denialsPerSecond: perSecond, denialsBurst: burst } = limits;
  const throttle = new DenialThrottle({ perSecond, burst, clock, report });
  counter(
    registry,
    {
      name: 'sallyport_denials_throttled_total',
      help: 'Denied calls that were counted in a summary instead of recorded one by one',
    },
    () => throttle.total,
  );
  closing.add(() => throttle.close());
  return throttle;
}

/** Fetches credentials when they change; drops them on revocation and at shutdown. */
function followCredentials({
  replica,
  controlPlane,
  log,
  closing,
  enrolment: { identity },
}: Parts): Credentials {
  const credentials = new Credentials({
    fetch: controlPlane.credentials,
    currentVersion: () => replica.credentialsVersion,
    log,
  });
  for (const section of ['tenant', sidecarSection(identity.sidecarId)] as const) {
    replica.onChange(section, () => void credentials.refresh());
  }
  replica.onChange('revocations', () => {
    if (replica.revocationOf(identity.agentId) !== undefined) credentials.drop();
  });
  closing.add(() => credentials.drop());
  return credentials;
}

/** Ends calls in flight: after a kill switch, the calls that it blocks; after a revocation, all calls. */
function endWhatIsStopped(
  { replica, log, enrolment: { identity } }: Parts,
  live: StoppableCalls,
): void {
  replica.onChange('kill_switches', () => {
    const ended = live.endBlocked(replica.killSwitches, replica.clock.now());
    if (ended > 0) log.warn({ ended }, 'a kill switch ended calls under way');
  });
  replica.onChange('revocations', () => {
    const revocation = replica.revocationOf(identity.agentId);
    const ended = revocation === undefined ? 0 : live.endAll(revocation);
    if (ended > 0)
      log.warn({ ended, reason_code: revocation }, 'a revocation ended calls under way');
  });
}

function openUpstreams(
  { limits }: Config,
  { guard, closing }: Parts,
): Pick<EnforceDeps, 'forward' | 'tunnelUpgrade'> {
  const forward = createForward({
    guard,
    timeouts: {
      connectMs: limits.upstreamConnectMs,
      headersMs: limits.upstreamTimeoutMs,
      bodyIdleMs: limits.upstreamIdleMs,
    },
  });
  closing.add(() => forward.close());
  const tunnelUpgrade = createTunnelUpgrade({
    guard,
    handshakeMs: limits.upstreamTimeoutMs,
    idleMs: limits.tunnelIdleMs,
  });
  return { forward, tunnelUpgrade };
}

interface Measured extends Parts {
  readonly credentials: Credentials;
  readonly live: StoppableCalls;
  readonly concurrency: Pick<EnforceDeps, 'tunnels' | 'held'>;
}

function measure(
  { spoolBytesMax }: Config,
  { registry, replica, live, concurrency, ...parts }: Measured,
): Pick<EnforceDeps, 'metrics' | 'traffic' | 'tracing'> {
  const { clock } = replica;
  createEvidenceMetrics(registry, { ...parts, bytesMax: spoolBytesMax, clock });
  createStateMetrics(registry, { ...parts, replica, clock });
  return {
    metrics: createDecisionMetrics(registry, { live, ...concurrency, clock }),
    traffic: createTrafficMetrics(registry, {
      ingress: { connections: () => parts.agentSide.connections() },
      authority: parts.authority,
    }),
    tracing: parts.tracing,
  };
}
