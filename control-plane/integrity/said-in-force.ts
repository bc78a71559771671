import type { Services } from '../services.ts';

/** What can be put in force by an event of its own, and taken out of it again. */
const kinds = [
  { table: 'kill_switch', prefix: 'kill_switches:', began: 'kill_switch.armed', ended: undefined },
  { table: 'policy', prefix: 'policy:', began: 'policy.published', ended: undefined },
  { table: 'binding', prefix: 'bindings:', began: 'binding.written', ended: 'binding.removed' },
] as const;

/** A row that must be there, for the ledger says that it was put in force. */
export interface Said {
  readonly tenantId: string;
  readonly table: (typeof kinds)[number]['table'];
  readonly key: string;
  readonly chainId: string;
  readonly ended: string | undefined;
  readonly position: number;
}

interface KnownTenant {
  readonly position: number;
  readonly said: Map<string, Said>;
}

/** What is known of each tenant's ledger from the rounds before. */
export type KnownLedgers = Map<string, KnownTenant>;

interface Row {
  readonly tenant_id: string;
  readonly chain_id: string;
  readonly type: string;
  readonly position: string;
}

/** What all ledgers say is in force. Reads what was sealed since `known`, and remembers it there. */
export async function saidInForce(
  pool: Services['pool'],
  known: KnownLedgers,
): Promise<readonly Said[]> {
  await forgetWoundBack(pool, known);
  const { rows } = await pool.query<Row>(sinceStatement, [
    [...known.keys()],
    [...known.values()].map(({ position }) => position),
    kinds.flatMap(({ began, ended }) => (ended === undefined ? [began] : [began, ended])),
  ]);
  for (const row of rows) note(known, row);
  return [...known.values()].flatMap(({ said }) => [...said.values()]);
}

/**
 * The index of (tenant, type, position) is entered for each tenant after what is known of it:
 * `offset 0` keeps the planner from joining the whole ledger instead.
 */
export const sinceStatement = `
select t.id as tenant_id, e.chain_id, e.type, e.position
  from tenant t
  left join unnest($1::text[], $2::bigint[]) as known (tenant_id, position) on known.tenant_id = t.id
  cross join lateral (
    select chain_id, type, position from evidence_row
     where tenant_id = t.id and type = any($3::text[]) and position > coalesce(known.position, 0)
       and source = 'control-plane' offset 0) e
 order by e.position`;

/** A ledger that ends before what is known of it was restored from a backup, and its rows with it. */
async function forgetWoundBack(pool: Services['pool'], known: KnownLedgers): Promise<void> {
  if (known.size === 0) return;
  const { rows } = await pool.query<{ tenant_id: string }>(
    `select known.tenant_id from unnest($1::text[], $2::bigint[]) as known (tenant_id, position)
      where not exists (select 1 from evidence_row e
                         where e.tenant_id = known.tenant_id and e.position >= known.position)`,
    [[...known.keys()], [...known.values()].map(({ position }) => position)],
  );
  for (const { tenant_id: tenantId } of rows) known.delete(tenantId);
}

function note(known: KnownLedgers, row: Row): void {
  const { tenant_id: tenantId, chain_id: chainId, type } = row;
  const position = Number(row.position);
  const said = known.get(tenantId)?.said ?? new Map<string, Said>();
  known.set(tenantId, { position, said });
  const kind = kinds.find(({ began, ended }) => type === began || type === ended);
  if (kind === undefined || !chainId.startsWith(kind.prefix)) return;
  const { table, prefix, ended } = kind;
  if (type === ended) said.delete(chainId);
  else {
    const key = chainId.slice(prefix.length);
    said.set(chainId, { tenantId, table, key, chainId, ended, position });
  }
}

/**
 * Whether what is said to be in force was taken out of it by ourselves a moment ago: a row goes
 * together with the event that says so, which waits in the outbox at first.
 */
export async function wasEnded(
  pool: Services['pool'],
  { tenantId, chainId, ended, position }: Said,
): Promise<boolean> {
  if (ended === undefined) return false;
  const { rows } = await pool.query<{ event: string | null }>(
    `select null as event from evidence_row
      where tenant_id = $1 and chain_id = $2 and type = $3 and position > $4
      union all
     select event from event_outbox where tenant_id = $1 and strpos(event, $3) > 0`,
    [tenantId, chainId, ended, position],
  );
  return rows.some(({ event }) => event === null || isEvent(event, { chainId, type: ended }));
}

/** What waits in the outbox may be no event at all, whoever put it there. */
function isEvent(
  text: string,
  { chainId, type }: { readonly chainId: string; readonly type: string },
): boolean {
  try {
    const event = JSON.parse(text) as { readonly chain_id?: unknown; readonly type?: unknown };
    return event.chain_id === chainId && event.type === type;
  } catch {
    return false;
  }
}
