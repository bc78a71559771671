import type { Pool } from 'pg';
import { type Bucket, Buckets, keptMs, minuteOf } from '../../shared/usage/buckets.ts';
import { usageSource } from '../../shared/usage/tally.ts';
import { ToolUsage } from '../../shared/usage/tool-usage.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import type { Services } from '../core/services.ts';

export const ownSource = 'control-plane';

const statement = `
select minute, json_object_agg(path, amount) as amounts
  from (select minute, path, sum(amount) as amount
          from usage_minute
         where tenant_id = $1 and agent_id = $2 and tool = $3 and minute >= $4 and source <> $5
         group by minute, path) as minutes
 group by minute`;

interface MinuteRow {
  readonly minute: number;
  readonly amounts: Readonly<Record<string, number>>;
}

/**
 * Returns the current usage of a tool by an agent: this process's own counts, plus the counts of
 * other processes from the database.
 */
export async function readUsage(
  {
    pool,
    clock,
    usage,
  }: Pick<Services, 'clock' | 'usage'> & { readonly pool: Pick<Pool, 'query'> },
  action: Pick<Action, 'tenantId' | 'agentId' | 'tool'>,
): Promise<ToolUsage> {
  const { tenantId, agentId, tool } = action;
  const { rows } = await pool.query<MinuteRow>({
    text: statement,
    values: [
      tenantId,
      agentId,
      tool,
      minuteOf(clock.now() - keptMs),
      usageSource(ownSource, usage.run),
    ],
  });
  const elsewhere = new Buckets();
  for (const row of rows) elsewhere.set(bucketOf(row));
  return new ToolUsage([elsewhere, usage.of(action)]);
}

export function bucketOf({ minute, amounts }: MinuteRow): Bucket {
  const { '': calls = 0, ...sums } = amounts;
  return { minute, calls, sums };
}

/** Deletes rows that are too old for every budget window. Returns their number. */
export async function sweepUsage({
  pool,
  clock,
}: Pick<Services, 'pool' | 'clock'>): Promise<number> {
  const oldest = minuteOf(clock.now() - keptMs);
  const { rowCount } = await pool.query('delete from usage_minute where minute < $1', [oldest]);
  return rowCount ?? 0;
}
