import type { Pool } from 'pg';
import type { KnownLedgers, LedgerVersion } from '../platform/integrity/known-ledgers.ts';
import { outboxMac } from '../platform/integrity/outbox-mac.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import type { Vault } from '../platform/vault/vault.ts';

/**
 * Tables whose rows an event activates, with the types of the activating and deactivating event.
 */
const kinds = [
  { table: 'kill_switch', prefix: 'kill_switches:', began: 'kill_switch.armed', ended: undefined },
  { table: 'policy', prefix: 'policy:', began: 'policy.published', ended: undefined },
  { table: 'binding', prefix: 'bindings:', began: 'binding.written', ended: 'binding.removed' },
  // A tool without a row counts as unregistered, and policies may allow unregistered tools.
  { table: 'tool', prefix: 'tool:', began: 'tool.ingested', ended: undefined },
  // A user without a row has no role, and a policy that denies by role does not match.
  { table: 'directory_user', prefix: 'users:', began: 'user.written', ended: undefined },
  { table: 'passport_revocation', prefix: '', began: 'passport.revoked', ended: undefined },
  // The key is the id from the event and not the name, because the name in the row is not signed.
  {
    table: 'credential',
    prefix: 'credentials:',
    began: 'credential.stored',
    ended: 'credential.removed',
  },
] as const;

/** Longer than any passport is valid, so an older revocation has no effect. */
const revokedMs = 25 * 3_600_000;

const types = kinds.flatMap(({ began, ended }) => (ended === undefined ? [began] : [began, ended]));

interface Row {
  readonly tenant_id: string;
  readonly chain_id: string;
  readonly type: string;
  readonly event_id: string;
  readonly occurred_at: Date;
  /** Key of the row that the event concerns; null if the chain id contains the key. */
  readonly subject: string | null;
  readonly version: string | null;
  readonly position: string | bigint;
}

/** Runs one statement: on the pool, or within a transaction. */
export type Query = <Found extends object>(
  text: string,
  values: readonly unknown[],
) => Promise<readonly Found[]>;

/** Runs each statement in a transaction of its own. */
export function queryOn(pool: Pick<Pool, 'query'>): Query {
  return async (text, values) => (await pool.query(text, [...values])).rows;
}

/** Runs the statements within a Prisma transaction. */
export function queryIn(tx: Pick<Transaction, '$queryRawUnsafe'>): Query {
  return (text, values) => tx.$queryRawUnsafe(text, ...values);
}

/**
 * Returns the versions that the ledgers record as active or formerly active, of one tenant or of
 * all. Reads the events that were sealed since `known`, and adds them to `known`.
 */
export async function activeVersions(
  query: Query,
  known: KnownLedgers,
  tenantId?: string,
): Promise<readonly LedgerVersion[]> {
  await forgetWoundBack(query, known);
  const rows = await query<Row>(sinceStatement, [
    [...known.keys()],
    [...known.values()].map(({ position }) => position),
    types,
    tenantId ?? null,
  ]);
  for (const row of rows) note(known, row);
  const wanted = tenantId === undefined ? [...known.values()] : [known.get(tenantId)];
  return wanted.flatMap((tenant) => [...(tenant?.said.values() ?? [])]);
}

/**
 * For each tenant, reads the index on (tenant, type, position) starting at the known position.
 * `offset 0` prevents the planner from joining the whole ledger.
 */
export const sinceStatement = `
select t.id as tenant_id, e.chain_id, e.type, e.event_id, e.occurred_at, e.subject,
       e.version, e.position
  from tenant t
  left join unnest($1::text[], $2::bigint[]) as known (tenant_id, position) on known.tenant_id = t.id
  cross join lateral (
    select chain_id, type, event_id, occurred_at, position,
           case type when 'user.written' then canonical::jsonb ->> 'user_id'
                     when 'passport.revoked' then canonical::jsonb #>> '{data,jti}'
                     when 'credential.stored' then canonical::jsonb #>> '{data,credential_id}'
                     when 'credential.removed' then canonical::jsonb #>> '{data,credential_id}'
           end as subject,
           case type when 'credential.stored' then canonical::jsonb #>> '{data,version}'
           end as version
      from evidence_row
     where tenant_id = t.id and type = any($3::text[]) and position > coalesce(known.position, 0)
       and source = 'control-plane' offset 0) e
 where $4::text is null or t.id = $4::text
 order by e.position`;

/**
 * Like `activeVersions` for one tenant, but does not check the other tenants; used on every call.
 */
export async function saidOfTenant(
  query: Query,
  known: KnownLedgers,
  tenantId: string,
): Promise<readonly LedgerVersion[]> {
  const own: KnownLedgers = new Map();
  const before = known.get(tenantId);
  if (before !== undefined) own.set(tenantId, before);
  const said = await activeVersions(query, own, tenantId);
  const after = own.get(tenantId);
  if (after === undefined) known.delete(tenantId);
  else known.set(tenantId, after);
  return said;
}

/**
 * Discards the known state of each ledger that became shorter, because such a ledger was restored
 * from a backup together with the rows.
 */
async function forgetWoundBack(query: Query, known: KnownLedgers): Promise<void> {
  if (known.size === 0) return;
  const rows = await query<{ tenant_id: string }>(
    `select known.tenant_id from unnest($1::text[], $2::bigint[]) as known (tenant_id, position)
      where not exists (select 1 from evidence_row e
                         where e.tenant_id = known.tenant_id and e.position >= known.position)`,
    [[...known.keys()], [...known.values()].map(({ position }) => position)],
  );
  for (const { tenant_id: tenantId } of rows) known.delete(tenantId);
}

function note(known: KnownLedgers, row: Row): void {
  const { tenant_id: tenantId, chain_id: chainId, type, event_id: eventId } = row;
  const position = Number(row.position);
  const said = known.get(tenantId)?.said ?? new Map<string, LedgerVersion>();
  known.set(tenantId, { position, said });
  const kind = kinds.find(({ began, ended }) => type === began || type === ended);
  if (kind === undefined || !chainId.startsWith(kind.prefix)) return;
  const { table, prefix, ended } = kind;
  const key = row.subject ?? chainId.slice(prefix.length);
  const occurredAtMs = new Date(row.occurred_at).getTime();
  const one = { tenantId, table, key, chainId, isEnded: type === ended, eventId, occurredAtMs };
  const name = `${table} ${key}`;
  const before = said.get(name);
  const version = Math.max(Number(row.version ?? 0), before?.version ?? 0);
  // A removed credential stays removed, even if an older event is read after its removal.
  const isEnded = one.isEnded || (table === 'credential' && before?.isEnded === true);
  said.set(name, { ...one, isEnded, version });
}

/** Discards the revocations of passports that have expired by now. */
export function forgetOld(known: KnownLedgers, nowMs: number): void {
  for (const { said } of known.values()) {
    for (const [name, { table, occurredAtMs }] of said) {
      if (table === 'passport_revocation' && occurredAtMs < nowMs - revokedMs) said.delete(name);
    }
  }
}

/**
 * Returns whether the control plane recorded this event in the outbox and had not sealed it when
 * the ledger was read up to `position`. Ignores rows without a valid keyed hash and events that
 * were already sealed, because a database writer could insert or restore such rows.
 */
export async function isWaiting(
  query: Query,
  vault: Pick<Vault, 'mac'>,
  {
    tenantId,
    eventId,
    position,
  }: Pick<LedgerVersion, 'tenantId' | 'eventId'> & { readonly position: number },
): Promise<boolean> {
  const rows = await query<{ event: string; mac: string | null }>(
    `select event, mac from event_outbox where tenant_id = $1 and event_id = $2
       and not exists (select 1 from evidence_row
                        where tenant_id = $1 and event_id = $2 and position <= $3::bigint)`,
    [tenantId, eventId, position],
  );
  return rows.some(({ event, mac }) => mac === outboxMac(vault, { tenantId, eventId, event }));
}
