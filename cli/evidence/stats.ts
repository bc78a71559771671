import { parseArgs } from 'node:util';
import {
  type EvidenceStats,
  evidenceStats,
} from '../../shared/contract/evidence/evidence-reading.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { count, say, sayJson } from '../policy/say.ts';
import { table } from '../table.ts';
import { oneOf } from './one-of.ts';

const groupings = ['day', 'agent', 'tool'] as const;

/** `sallyport evidence stats`: what the ledger holds, counted. */
export async function stats(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      ...apiOptions,
      by: { type: 'string', default: 'day' },
      from: { type: 'string' },
      to: { type: 'string' },
    },
  });
  const { by, from, to } = values;
  const query = {
    group_by: oneOf('--by', groupings, by),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  };
  const counted = await apiClient(values).call(evidenceStats, { query });
  if (values.json === true) sayJson(counted);
  else tell(counted);
  return 0;
}

function tell({ group_by, totals, decision_counts, ...more }: EvidenceStats): void {
  const decisions = Map.groupBy(decision_counts, ({ key }) => key);
  const rows = totals.map(({ key, events }) => [
    key ?? '(none)',
    String(events),
    (decisions.get(key) ?? []).map((one) => `${one.decision} ${one.count}`).join(', '),
  ]);
  console.log(table([group_by, 'events', 'decisions'], rows));
  const { top_deny_reasons: reasons, approval_latency_ms: latency } = more;
  say([
    ...reasons.map((one) => `denied ${count(one.count, 'time')}: ${one.reason_code}`),
    ...(latency.count === 0
      ? []
      : [
          `${count(latency.count, 'approval')} settled: half within ${latency.p50} ms, 99 % within ${latency.p99} ms`,
        ]),
  ]);
}
