import type { Log } from '../../shared/base/log.ts';

/** What an operator may want to know of a decision, and may be shown. */
export interface DecisionLine {
  readonly decision: string;
  readonly reasonCode: string;
  /** False where the tenant's mode only observes: the call went through all the same. */
  readonly enforced?: boolean | undefined;
  readonly tool?: string | undefined;
  /** Never in the log: a resource may hold a secret. */
  readonly resource?: string | undefined;
  readonly host?: string | undefined;
  readonly method?: string | undefined;
  /** Undefined for what was refused before it was a call, and for what could not be recorded. */
  readonly evidenceId?: string | undefined;
  readonly approvalId?: number | undefined;
  /** What the sidecar took for it, without the time that a human took. */
  readonly durationMs?: number | undefined;
  readonly traceId?: string | undefined;
}

/** Where decisions are reported: the log, and whoever watches in the same process. */
export interface DecisionSink {
  readonly log: Log;
  readonly onDecision?: ((line: DecisionLine) => void) | undefined;
}

/**
 * The one line of a decision, always with these names (docs/how-to/operate.md); null where there
 * is nothing to say. Resources, arguments and hints never appear: they may hold secrets.
 */
export function logDecision({ log, onDecision }: DecisionSink, line: DecisionLine): void {
  onDecision?.(line);
  const { durationMs } = line;
  log.info(
    {
      decision: line.decision,
      reason_code: line.reasonCode,
      enforced: line.enforced ?? true,
      tool: line.tool ?? null,
      host: line.host ?? null,
      method: line.method ?? null,
      evidence_id: line.evidenceId ?? null,
      approval_id: line.approvalId ?? null,
      duration_ms: durationMs === undefined ? null : Math.round(durationMs * 1000) / 1000,
      trace_id: line.traceId ?? null,
    },
    'decision',
  );
}
