import { Counter, Histogram, type Registry } from 'prom-client';
import type { Clock } from '../../shared/base/clock.ts';
import { gauge } from '../../shared/base/observed-metric.ts';
import { isErrorCode } from '../../shared/errors/error-kinds.ts';

interface Observed {
  readonly live: { readonly size: number };
  /** Slots in use by tunnels. */
  readonly tunnels: { readonly inUse: number };
  /** Slots in use by calls that wait for a human. */
  readonly held: { readonly inUse: number };
  readonly clock: Pick<Clock, 'now'>;
}

/** The last decision. */
export interface LastDecision {
  readonly atMs: number;
  readonly decision: string;
  readonly reasonCode: string;
}

export interface DecisionMetrics {
  /**
   * Counts a decision; `seconds` is the time that the sidecar took, undefined if nothing was
   * judged.
   */
  decided(decision: string, reasonCode: string, seconds?: number): void;
  /** Undefined if there was no decision since the start. */
  last(): LastDecision | undefined;
}

/**
 * Registers the metrics of decisions. Labels are bounded: reason codes of policies count as
 * `policy`, and no label contains paths or arguments.
 */
export function createDecisionMetrics(
  registry: Registry,
  { live, tunnels, held, clock }: Observed,
): DecisionMetrics {
  const registers = [registry];
  const decisions = new Counter({
    name: 'sallyport_decisions_total',
    help: 'Decisions, by outcome and reason code (reasons stamped by policies count as "policy")',
    labelNames: ['decision', 'reason_code'],
    registers,
  });
  const seconds = new Histogram({
    name: 'sallyport_decision_seconds',
    help: 'From a call understood to its decision on disk, without the time that a human took',
    buckets: [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10],
    registers,
  });
  gauge(
    registry,
    { name: 'sallyport_held_calls', help: 'Calls that wait for a human decision now' },
    () => held.inUse,
  );
  gauge(
    registry,
    { name: 'sallyport_tunnels', help: 'Tunnels that stand now, WebSockets among them' },
    () => tunnels.inUse,
  );
  gauge(
    registry,
    { name: 'sallyport_calls_in_flight', help: 'Calls and tunnels under way' },
    () => live.size,
  );
  let last: LastDecision | undefined;
  return {
    last: () => last,
    decided(decision, reasonCode, took) {
      last = { atMs: clock.now(), decision, reasonCode };
      decisions.inc({ decision, reason_code: isErrorCode(reasonCode) ? reasonCode : 'policy' });
      if (took !== undefined) seconds.observe(took);
    },
  };
}
