import { signedPolicy } from '../policies/load-published.ts';
import { type Rounds, startRounds } from '../rounds.ts';
import type { Services } from '../services.ts';

type Deps = Pick<Services, 'db' | 'pool' | 'guard' | 'log'>;

/** How long a row that was taken out of force by SQL can go unseen. */
const everyMs = 10_000;

/**
 * Looks again and again for what no decision meets: a kill switch or a policy that somebody took
 * out of force in the database. Until it is put right nothing is decided or published for its tenant.
 */
export async function startIntegritySweep(services: Deps): Promise<Rounds> {
  const round = () =>
    sweepRows(services).catch((err: unknown) => {
      services.log.warn({ err }, 'rows that give authority could not be looked through');
    });
  await round();
  return startRounds(round, everyMs);
}

export async function sweepRows({ db, pool, guard }: Deps): Promise<void> {
  const suspects = new Set<string>();
  for (const row of await db.killSwitch.findMany()) {
    if (!guard.holds('kill_switch', row)) suspects.add(row.tenantId);
  }
  const policies = await db.policy.findMany({
    where: { lifecycle: { not: 'draft' } },
    select: signedPolicy,
  });
  for (const row of policies) if (!guard.holds('policy', row)) suspects.add(row.tenantId);
  for (const { tenant_id: tenantId, row_table: table, row_key: key } of await missing(pool)) {
    guard.forged({ tenantId, table, key, found: 'missing' });
    suspects.add(tenantId);
  }
  guard.suspect(suspects);
}

interface Missing {
  readonly tenant_id: string;
  readonly row_table: string;
  readonly row_key: string;
}

/**
 * Rows of which the ledger says that they are in force, and which are gone. One statement, one
 * view: a row goes together with the event that says so, which waits in the outbox at first.
 */
const missingStatement = `
with said as (
  select t.id as tenant_id, n.row_table, n.prefix, n.ended, e.chain_id, max(e.seq) as seq
  from tenant t
  cross join (values ('kill_switch', 'kill_switches:', 'kill_switch.armed', ''),
                     ('policy', 'policy:', 'policy.published', ''),
                     ('binding', 'bindings:', 'binding.written', 'binding.removed'))
       as n (row_table, prefix, began, ended)
  join evidence_row e on e.tenant_id = t.id and e.type = n.began
    and e.source = 'control-plane' and starts_with(e.chain_id, n.prefix)
  group by t.id, n.row_table, n.prefix, n.ended, e.chain_id)
select said.tenant_id, said.row_table, substr(said.chain_id, length(said.prefix) + 1) as row_key
from said
left join kill_switch k on said.row_table = 'kill_switch' and k.tenant_id = said.tenant_id
  and 'kill_switches:' || k.id = said.chain_id
left join policy p on said.row_table = 'policy' and p.tenant_id = said.tenant_id
  and 'policy:' || p.id = said.chain_id
left join binding b on said.row_table = 'binding' and b.tenant_id = said.tenant_id
  and 'bindings:' || b.name = said.chain_id
where k.id is null and p.id is null and b.name is null
  and not exists (select 1 from evidence_row e where e.tenant_id = said.tenant_id
    and e.chain_id = said.chain_id and e.seq > said.seq and e.type = said.ended)
  and not exists (select 1 from event_outbox o where o.tenant_id = said.tenant_id
    and o.event::jsonb ->> 'chain_id' = said.chain_id and o.event::jsonb ->> 'type' = said.ended)`;

async function missing(pool: Services['pool']): Promise<readonly Missing[]> {
  return (await pool.query<Missing>(missingStatement)).rows;
}
