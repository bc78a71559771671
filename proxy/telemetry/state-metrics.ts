import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../shared/base/clock.ts';
import { counter, gauge } from '../../shared/base/observed-metric.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import { isArmed } from '../../shared/decision/kill-switch.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { Replica } from '../replica/replica.ts';

interface State {
  readonly replica: Replica;
  readonly credentials: { readonly isCurrent: boolean; readonly failures: number };
  readonly bus: Pick<Bus, 'ping'>;
  readonly clock: Clock;
  readonly version: string;
}

/** Registers the metrics of the replica that decisions use, and of the replica's age. */
export function createStateMetrics(registry: Registry, state: State): void {
  replicaMetrics(registry, state);
  leaseMetrics(registry, state.replica);
  const { credentials, bus, version } = state;
  gauge(
    registry,
    {
      name: 'sallyport_credentials_current',
      help: '1 while the credentials in memory are the current ones; bound calls are refused otherwise',
    },
    () => Number(credentials.isCurrent),
  );
  counter(
    registry,
    {
      name: 'sallyport_credential_fetch_failures_total',
      help: 'Times that credentials could not be fetched from the control plane',
    },
    () => credentials.failures,
  );
  gauge(registry, { name: 'sallyport_bus_up', help: '1 while the sync bus answers' }, () =>
    answers(bus),
  );
  new Gauge({
    name: 'sallyport_build_info',
    help: 'Which version runs, on which Node; always 1',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version, node: process.version }, 1);
}

function replicaMetrics(registry: Registry, { replica, clock }: State): void {
  new Gauge({
    name: 'sallyport_replica_section_version',
    help: 'Version of each section of the tenant’s state that is held',
    labelNames: ['section'],
    registers: [registry],
    collect() {
      const versions = replica.versions();
      for (const section of tenantSections) this.set({ section }, versions[section] ?? 0);
    },
  });
  gauge(
    registry,
    {
      name: 'sallyport_replica_age_seconds',
      help: 'Age of the state that decisions are made by',
    },
    () => replica.freshness().ageMs / 1000,
  );
  gauge(
    registry,
    { name: 'sallyport_replica_fresh', help: '1 while the state is whole and young enough' },
    () => Number(replica.freshness().fresh),
  );
  counter(
    registry,
    {
      name: 'sallyport_replica_refused_total',
      help: 'Texts on the bus that were refused: forged, foreign, older, replayed or unusable',
    },
    () => replica.refused,
  );
  gauge(
    registry,
    {
      name: 'sallyport_kill_switches_armed',
      help: 'Kill switches in force for this tenant; 0 also while nothing is held',
    },
    () => armed(replica, clock),
  );
}

function leaseMetrics(registry: Registry, replica: Replica): void {
  gauge(
    registry,
    {
      name: 'sallyport_lease_uses_remaining',
      help: 'Single-use passports left in the lease that plain calls are made under',
    },
    () => replica.leaseLeft().uses,
  );
  gauge(
    registry,
    { name: 'sallyport_lease_remaining_seconds', help: 'Time left in that lease; 0 without one' },
    () => replica.leaseLeft().seconds,
  );
}

function armed(replica: Replica, clock: Clock): number {
  if (replica.freshness().ageMs === Number.POSITIVE_INFINITY) return 0;
  try {
    return replica.killSwitches.filter((one) => isArmed(one, clock.now())).length;
  } catch {
    // No snapshot is held yet: every call is refused, and `sallyport_replica_fresh` is 0.
    return 0;
  }
}

const pingMs = 1_000;

async function answers(bus: Pick<Bus, 'ping'>): Promise<number> {
  const patience = new AbortController();
  const late = delay(pingMs, 0, { signal: patience.signal }).catch(() => 0);
  const pong = bus.ping().then(
    () => 1,
    () => 0,
  );
  const up = await Promise.race([pong, late]);
  patience.abort();
  return up;
}
