import type { DecisionLine } from '../../proxy/telemetry/decision-log.ts';
import { printable } from '../support/terminal.ts';

interface Output {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

/** Prints each decision when it is made: as text on a terminal, as JSON otherwise. */
export function printDecisions(
  output: Output,
  now: () => Date = () => new Date(),
): (line: DecisionLine) => void {
  const format = output.isTTY === true ? forTerminal : asJson;
  return (line) => void output.write(`${format(line, now())}\n`);
}

/**
 * Formats time, decision, tool, resource, reason and duration as one line. Replaces control
 * characters, which an agent may send.
 */
function forTerminal(line: DecisionLine, at: Date): string {
  const { decision, enforced = true, tool, resource, host, reasonCode, durationMs } = line;
  const fields = [
    at.toTimeString().slice(0, 8),
    (enforced ? decision : `${decision} (observed)`).padEnd(16),
    tool ?? host ?? '-',
    resource ?? '-',
    reasonCode,
    ...(durationMs === undefined ? [] : [duration(durationMs)]),
  ];
  return fields.map(printable).join('  ');
}

function duration(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

/**
 * Omits the resource, because JSON lines are often written to files and a path may contain a
 * secret.
 */
function asJson(line: DecisionLine, at: Date): string {
  const { durationMs } = line;
  return JSON.stringify({
    time: at.toISOString(),
    decision: line.decision,
    enforced: line.enforced ?? true,
    tool: line.tool ?? null,
    host: line.host ?? null,
    reason_code: line.reasonCode,
    duration_ms: durationMs === undefined ? null : Math.round(durationMs * 1000) / 1000,
    evidence_id: line.evidenceId ?? null,
    approval_id: line.approvalId ?? null,
  });
}
