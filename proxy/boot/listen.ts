import type { Registry } from 'prom-client';
import type { DiskWatch } from '../../shared/base/disk-watch.ts';
import { formatAuthority } from '../../shared/base/host.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import type { Closing } from '../base/closing.ts';
import type { EnforceDeps } from '../enforce/deps.ts';
import { enforce } from '../enforce/enforce.ts';
import { enforceTunnel, isPassthrough } from '../enforce/tunnels.ts';
import { createIngress } from '../ingress/ingress.ts';
import type { IngressLimits } from '../ingress/limits.ts';
import { upgradeExchange } from '../ingress/live-exchange.ts';
import { DenialThrottle } from '../records/denial-throttle.ts';
import type { Config } from '../settings/config.ts';
import { createAdmin } from '../telemetry/admin.ts';
import { type DecisionSink, logDecision } from '../telemetry/decision-log.ts';
import { readiness } from '../telemetry/readiness.ts';
import type { Authority } from '../tls/authority.ts';
import { listenTransparent } from './listen-transparent.ts';

/** Time to record the outcomes of calls that were cut off. */
const lastWordsMs = 2_000;

interface ListenParts {
  readonly authority: Authority;
  readonly guard: Guard;
  readonly registry: Registry;
  /** Counts the agent's connections; set when the ingress listens. */
  readonly agentSide: { connections: () => number };
  readonly stopping: AbortController;
  readonly disk: Pick<DiskWatch, 'isWritable'>;
  readonly log: Log;
  readonly onDecision?: DecisionSink['onDecision'];
  readonly closing: Closing;
}

/** Opens the ports: the proxy for the agent, and the admin port for health and metrics. */
export async function listen(
  config: Config,
  deps: EnforceDeps,
  parts: ListenParts,
): Promise<{ readonly proxyUrl: string; readonly adminUrl: string }> {
  const { authority, guard, log, registry, closing } = parts;
  const refusals = throttleRefusals(config, { log, clock: deps.clock });
  closing.add(() => refusals.close());
  const ingress = createIngress({
    authority,
    guard,
    log,
    token: config.proxyToken,
    limits: ingressLimits(config),
    handle: (exchange) => enforce(exchange, deps),
    passthrough: (host, port) => (isPassthrough(deps, host, port) ? 'tunnel' : 'intercept'),
    onTunnel: (tunnel) => enforceTunnel(tunnel, deps),
    onUpgrade: (upgrade) => enforce(upgradeExchange(upgrade), deps),
    onRefusal: ({ code, host }) => {
      deps.metrics.decided('deny', code);
      if (refusals.admit(code)) logDecision(parts, { decision: 'deny', reasonCode: code, host });
    },
  });
  const proxy = await ingress.listen(config.proxyPort, config.proxyHost);
  parts.agentSide.connections = () => ingress.connections();
  const admin = await createAdmin({
    port: config.adminPort,
    host: config.adminHost,
    registry,
    caPem: authority.certPem,
    ready: () => readiness(deps, parts.disk),
  });
  // The admin port closes last, so that metrics are available during the whole drain.
  closing.add(() => admin.close());
  closing.add(() => deps.callsInFlight.settled(lastWordsMs));
  closing.add(() => ingress.close(config.limits.drainMs));
  closing.add(() => parts.stopping.abort());
  guard.ownPorts.add(proxy.port);
  guard.ownPorts.add(admin.port);
  await listenTransparent(config, { ...parts, ingress });
  return {
    proxyUrl: `http://${formatAuthority({ host: config.proxyHost, port: proxy.port })}`,
    adminUrl: `http://${formatAuthority({ host: config.adminHost, port: admin.port })}`,
  };
}

/**
 * Limits the log lines about requests that the ingress refuses. This throttle is separate, because
 * a caller without the proxy token must not consume the agent's budget.
 */
function throttleRefusals(
  { limits }: Config,
  { log, clock }: Pick<EnforceDeps, 'log' | 'clock'>,
): DenialThrottle {
  return new DenialThrottle({
    perSecond: limits.denialsPerSecond,
    burst: limits.denialsBurst,
    clock,
    report: async ({ total, counts }) => {
      log.warn({ total, denied: Object.fromEntries(counts) }, 'refused requests were throttled');
    },
  });
}

function ingressLimits({ limits }: Config): Partial<IngressLimits> {
  return {
    connectionsMax: limits.connectionsMax,
    headerBytesMax: limits.headerBytesMax,
    headerCountMax: limits.headersMax,
    headMs: limits.headMs,
    bodyIdleMs: limits.bodyIdleMs,
    connectMs: limits.upstreamConnectMs,
    tunnelIdleMs: limits.tunnelIdleMs,
  };
}
