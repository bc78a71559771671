import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../shared/clock.ts';
import { isErrorCode } from '../../shared/errors.ts';
import { tenantSections } from '../../shared/sync/sections.ts';

interface Observed {
  readonly replica: {
    versions(): Readonly<Record<string, number>>;
    freshness(): { readonly ageMs: number };
  };
  readonly spool: { readonly depth: number };
  readonly live: { readonly size: number };
  readonly clock: Pick<Clock, 'now'>;
}

/** The decision made last. */
export interface LastDecision {
  readonly atMs: number;
  readonly decision: string;
  readonly reasonCode: string;
}

export interface DecisionMetrics {
  decided(decision: string, reasonCode: string): void;
  /** Undefined: none was made since the start. */
  last(): LastDecision | undefined;
}

/**
 * What the sidecar decides and how current it is. Labels are bounded: reasons that policies make
 * up count as `policy`, and nothing comes from paths or arguments.
 */
export function createDecisionMetrics(
  registry: Registry,
  { replica, spool, live, clock }: Observed,
): DecisionMetrics {
  const registers = [registry];
  const decisions = new Counter({
    name: 'sallyport_decisions_total',
    help: 'Decisions, by outcome and reason code (reasons stamped by policies count as "policy")',
    labelNames: ['decision', 'reason_code'],
    registers,
  });
  new Gauge({
    name: 'sallyport_replica_section_version',
    help: 'Version of each section of the tenant’s state that is held',
    labelNames: ['section'],
    registers,
    collect() {
      const versions = replica.versions();
      for (const section of tenantSections) this.set({ section }, versions[section] ?? 0);
    },
  });
  gauge(
    registry,
    'sallyport_replica_age_seconds',
    'Age of the state that decisions are made by',
    () => replica.freshness().ageMs / 1000,
  );
  gauge(
    registry,
    'sallyport_spool_records',
    'Evidence records not yet sealed by the control plane',
    () => spool.depth,
  );
  gauge(registry, 'sallyport_calls_in_flight', 'Calls and tunnels under way', () => live.size);
  let last: LastDecision | undefined;
  return {
    last: () => last,
    decided: (decision, reasonCode) => {
      last = { atMs: clock.now(), decision, reasonCode };
      decisions.inc({ decision, reason_code: isErrorCode(reasonCode) ? reasonCode : 'policy' });
    },
  };
}

function gauge(registry: Registry, name: string, help: string, value: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(value());
    },
  });
}
