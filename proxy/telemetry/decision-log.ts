import type { Log } from '../../shared/base/log.ts';

/** The facts of a decision that an operator may see. */
export interface DecisionLine {
  readonly decision: string;
  readonly reasonCode: string;
  /** False if the tenant's mode only observes, so the call was performed anyway. */
  readonly enforced?: boolean | undefined;
  readonly tool?: string | undefined;
  /** Never logged, because a resource may contain a secret. */
  readonly resource?: string | undefined;
  readonly host?: string | undefined;
  readonly method?: string | undefined;
  /**
   * Undefined if the request was refused before it was recognised as a call, or could not be
   * recorded.
   */
  readonly evidenceId?: string | undefined;
  readonly approvalId?: number | undefined;
  /** Time that the sidecar took, without the time that a human took. */
  readonly durationMs?: number | undefined;
  readonly traceId?: string | undefined;
}

/** Receivers of decisions: the log, and a listener in the same process. */
export interface DecisionSink {
  readonly log: Log;
  readonly onDecision?: ((line: DecisionLine) => void) | undefined;
}

/**
 * Logs a decision in one line, always with these names (docs/how-to/operate.md); null if there is
 * no value. Resources, arguments and hints never appear, because they may contain secrets.
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
