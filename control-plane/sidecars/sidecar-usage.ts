import type { Bucket } from '../../shared/usage/buckets.ts';
import { keptMs, minuteOf } from '../../shared/usage/buckets.ts';
import { usageSource } from '../../shared/usage/tally.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { bucketOf } from '../usage/read-usage.ts';
import { ownSidecar } from './fleet.ts';

interface UsageElsewhere {
  /** The response covers all counted events up to this ledger position. */
  readonly position: number;
  /** The response contains the buckets that changed after this position; 0: all buckets. */
  readonly after: number;
  readonly buckets: readonly (Bucket & { readonly tool: string })[];
}

// The rows and the position are read in one SQL statement, so both come from the same database
// snapshot. If the ledger ends before the requested position, the ledger was restored from a
// backup, and all buckets are returned.
const statement = `
with asked as (
  select coalesce(head.position, 0) as position,
         case when $5::bigint > coalesce(head.position, 0) then 0 else $5::bigint end as after
    from (select 1) as one left join evidence_head as head on head.tenant_id = $1
), changed as (
  select distinct tool, minute from usage_minute
   where tenant_id = $1 and agent_id = $2 and source <> $3 and minute >= $4
     and position > (select after from asked)
), summed as (
  select tool, minute, path, sum(amount) as amount
    from usage_minute join changed using (tool, minute)
   where tenant_id = $1 and agent_id = $2 and source <> $3
   group by tool, minute, path
), minutes as (
  select tool, minute, json_object_agg(path, amount) as amounts from summed group by tool, minute
)
select asked.position, asked.after, coalesce(json_agg(minutes) filter (where minutes.tool is not null), '[]') as minutes
  from asked left join minutes on true group by asked.position, asked.after`;

interface AnswerRow {
  readonly position: string;
  readonly after: string;
  readonly minutes: readonly {
    readonly tool: string;
    readonly minute: number;
    readonly amounts: Readonly<Record<string, number>>;
  }[];
}

/**
 * Usage of a sidecar's agent elsewhere: at the agent's other sidecars, at the control plane, and in
 * earlier runs of this sidecar.
 */
export async function sidecarUsage(
  services: Services,
  caller: Caller,
  { run, after }: { readonly run: string; readonly after: number },
): Promise<UsageElsewhere> {
  const { tenantId, agentId, id } = await ownSidecar(services, caller);
  const { rows } = await services.pool.query<AnswerRow>({
    text: statement,
    values: [
      tenantId,
      agentId,
      usageSource(`sidecar:${id}`, run),
      minuteOf(services.clock.now() - keptMs),
      after,
    ],
  });
  const [row] = rows;
  if (row === undefined) throw new Error('the usage query returned no row');
  return {
    position: Number(row.position),
    after: Number(row.after),
    buckets: row.minutes.map(({ tool, ...minute }) => ({ tool, ...bucketOf(minute) })),
  };
}
