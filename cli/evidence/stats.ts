import {
  type EvidenceStats,
  evidenceStats,
} from '../../shared/contract/evidence/evidence-reading.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printJson, printLines, table } from '../support/terminal.ts';

interface Options extends ApiOptions {
  readonly by: 'day' | 'agent' | 'tool';
  readonly from?: string;
  readonly to?: string;
  readonly json?: boolean;
}

/** `sallyport evidence stats`. */
export async function stats(options: Options): Promise<number> {
  const { by, from, to } = options;
  const query = {
    group_by: by,
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  };
  const counts = await apiClient(options).call(evidenceStats, { query });
  if (options.json === true) printJson(counts);
  else printStats(counts);
  return 0;
}

function printStats({ group_by, totals, decision_counts, ...more }: EvidenceStats): void {
  const decisions = Map.groupBy(decision_counts, ({ key }) => key);
  const rows = totals.map(({ key, events }) => [
    key ?? '(none)',
    String(events),
    (decisions.get(key) ?? []).map((one) => `${one.decision} ${one.count}`).join(', '),
  ]);
  console.log(table([group_by, 'events', 'decisions'], rows));
  const { top_deny_reasons: reasons, approval_latency_ms: latency } = more;
  printLines([
    ...reasons.map((one) => `denied ${counted(one.count, 'time')}: ${one.reason_code}`),
    ...(latency.count === 0
      ? []
      : [
          `${counted(latency.count, 'approval')} decided: half within ${latency.p50} ms, 99 % within ${latency.p99} ms`,
        ]),
  ]);
}
