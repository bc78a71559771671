import type { EvidenceStats, StatsQuery } from '../../shared/contract/evidence/evidence-reading.ts';
import type { Services } from '../core/services.ts';
import { eventFilter } from '../ledger/reading/event-filter.ts';

const groupsMax = 1_000;
const reasonsMax = 10;

/**
 * SQL of each grouping: the group key, the ranking that selects groups if there are too many, and
 * the display order.
 */
const groupings = {
  day: { key: "(occurred_at AT TIME ZONE 'UTC')::date", rank: 'key DESC', order: 'key' },
  agent: { key: 'agent_id', rank: 'events DESC, key', order: 'events DESC, key' },
  tool: { key: 'tool', rank: 'events DESC, key', order: 'events DESC, key' },
} as const satisfies Record<StatsQuery['group_by'], object>;

interface StatsRow extends Pick<EvidenceStats, 'totals' | 'decision_counts' | 'top_deny_reasons'> {
  readonly settled: number;
  readonly percentiles: readonly number[] | null;
}

/**
 * Computes statistics of a tenant's ledger in one SQL statement and thus from one database
 * snapshot.
 */
export async function evidenceStats(
  { pool }: Pick<Services, 'pool'>,
  tenantId: string,
  query: StatsQuery,
): Promise<EvidenceStats> {
  const { text, values } = statsStatement(tenantId, query);
  const { rows } = await pool.query<StatsRow>(text, [...values]);
  const [row] = rows;
  if (row === undefined) throw new Error('the statistics query returned no row');
  const { settled, percentiles, ...counts } = row;
  const [p50 = null, p90 = null, p95 = null, p99 = null] = percentiles ?? [];
  const approval_latency_ms = { count: settled, p50, p90, p95, p99 };
  return { group_by: query.group_by, ...counts, approval_latency_ms };
}

/**
 * Builds the statement and its values. Percentiles are discrete, so each one is a value that
 * occurred.
 */
export function statsStatement(
  tenantId: string,
  { group_by, ...times }: StatsQuery,
): { readonly text: string; readonly values: readonly unknown[] } {
  const { fromMs, toMs } = eventFilter(times);
  const values: unknown[] = [tenantId];
  const bind = (ms: number) => `$${values.push(new Date(ms).toISOString())}::timestamptz`;
  const within = [
    ...(fromMs === undefined ? [] : [` AND occurred_at >= ${bind(fromMs)}`]),
    ...(toMs === undefined ? [] : [` AND occurred_at <= ${bind(toMs)}`]),
  ].join('');
  const { key, rank, order } = groupings[group_by];
  // The groups are sorted by bytes, independent of the database's collation. `bare` marks the group
  // without a key.
  const text = `
WITH counted AS MATERIALIZED (
  SELECT coalesce(key::text, '') COLLATE "C" AS key, key IS NULL AS bare, decision, reason, count
    FROM (
      SELECT ${key} AS key, CASE WHEN type = 'decision' THEN decision END AS decision,
             CASE WHEN type = 'decision' AND decision = 'deny' THEN reason_code END AS reason,
             count(*) AS count
        FROM evidence_row WHERE tenant_id = $1${within} GROUP BY 1, 2, 3
    ) AS grouped
), top AS MATERIALIZED (
  SELECT key, bare, sum(count) AS events,
         coalesce(sum(count) FILTER (WHERE decision IS NOT NULL), 0) AS decisions
    FROM counted GROUP BY key, bare ORDER BY ${rank}, bare LIMIT ${groupsMax}
), decided AS (
  SELECT key, bare, events, decision, sum(count) AS count
    FROM top JOIN counted USING (key, bare)
   WHERE decision IS NOT NULL GROUP BY key, bare, events, decision
), reasons AS (
  SELECT reason COLLATE "C" AS reason_code, sum(count) AS count
    FROM counted WHERE reason IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ${reasonsMax}
), latency AS (${latencyText(within)})
SELECT (SELECT coalesce(json_agg(json_build_object(
                 'key', CASE WHEN bare THEN NULL ELSE key END, 'events', events,
                 'decisions', decisions) ORDER BY ${order}, bare), '[]') FROM top) AS totals,
       (SELECT coalesce(json_agg(json_build_object(
                 'key', CASE WHEN bare THEN NULL ELSE key END, 'decision', decision,
                 'count', count) ORDER BY ${order}, bare, decision COLLATE "C"), '[]')
          FROM decided) AS decision_counts,
       (SELECT coalesce(json_agg(reasons), '[]') FROM reasons) AS top_deny_reasons,
       (SELECT count(*)::int FROM latency) AS settled,
       (SELECT percentile_disc(ARRAY[0.5, 0.9, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms)
          FROM latency) AS percentiles`;
  return { text, values };
}

/**
 * Returns SQL that selects one row for each approval that was settled in the period. The SQL parses
 * the approval and its outcome from the sealed text. Quotes inside values are escaped in this text,
 * so a value cannot imitate a member.
 */
function latencyText(within: string): string {
  return `
  SELECT greatest(extract(epoch FROM settled.at - asked.at) * 1000, 0)::float8 AS ms
    FROM (SELECT substring(canonical FROM '"approval_id":(\\d+)') AS approval, min(occurred_at) AS at
            FROM evidence_row WHERE tenant_id = $1 AND type = 'approval.decided'
             AND substring(canonical FROM '[,{]"status":"([a-z_]+)"') IN ('approved', 'denied', 'modified')
           GROUP BY 1${within === '' ? '' : ` HAVING ${within.slice(5).replaceAll('occurred_at', 'min(occurred_at)')}`}) AS settled
    JOIN (SELECT substring(canonical FROM '"approval_id":(\\d+)') AS approval, min(occurred_at) AS at
            FROM evidence_row WHERE tenant_id = $1 AND type = 'approval.requested'
           GROUP BY 1) AS asked USING (approval)`;
}
