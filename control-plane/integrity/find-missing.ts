import type { ArmedKillSwitches } from '../platform/integrity/armed-kill-switches.ts';
import type { LedgerVersion } from '../platform/integrity/known-ledgers.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { type SignedRows, signedRows } from '../platform/signed-store/signed-rows.ts';
import type {
  ListQuery,
  SignedClient,
  SignedPart,
  Where,
} from '../platform/signed-store/tables.ts';
import { claimsOf, type Unverified, validRow } from '../platform/signed-store/verified.ts';
import type { BindingRemoval } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import type { Vault } from '../platform/vault/vault.ts';
import { activeVersions, forgetOld, isWaiting, type Query } from './active-versions.ts';
import { outdatedAs, reportOutdated, standingsOf } from './current-credentials.ts';

type ComparedTable = 'binding' | 'credential' | 'passportRevocation';

interface Deps {
  readonly db: SignedClient & Pick<Transaction, ComparedTable>;
  readonly query: Query;
  readonly guard: RowGuard;
  readonly vault: Pick<Vault, 'mac'>;
}

export interface Found {
  /** By tenant, `<table> <key>` of what is forged or missing. */
  readonly suspects: ReadonlyMap<string, readonly string[]>;
  /** By tenant, the kill switches that are armed. */
  readonly armed: ReadonlyMap<string, ArmedKillSwitches>;
}

/**
 * Compares the rows whose absence would give authority with what the ledger says of them. Of all
 * tenants, or of one.
 */
export async function findMissing(deps: Deps, nowMs: number, tenantId?: string): Promise<Found> {
  const { db, query, guard } = deps;
  const suspects = new Map<string, string[]>();
  const suspect = (row: { readonly tenantId: string }, name: string) => {
    suspects.set(row.tenantId, [...(suspects.get(row.tenantId) ?? []), name]);
  };
  const where = tenantId === undefined ? {} : { tenantId };
  // The ledger before the rows: what it says is in force was there by then.
  forgetOld(guard.known, nowMs);
  const said = await activeVersions(query, guard.known, tenantId);
  // Before the rows, too: a switch that is armed later is read by its event.
  const positions = new Map([...guard.known].map(([id, { position }]) => [id, position]));
  const switches = await claimsWithSuspects(
    signedRows({ db, guard }, 'kill_switch'),
    where,
    (row) => suspect(row, `kill_switch ${row.id}`),
  );
  // Drafts, too: one that was published is no draft again, whatever its row says.
  const policies = await claimsWithSuspects(signedRows({ db, guard }, 'policy'), where, (row) =>
    suspect(row, `policy ${row.id}`),
  );
  const bindings = await db.binding.findMany({ where, select: { tenantId: true, name: true } });
  const present = new Set([
    ...switches.map(({ tenantId, id }) => nameOf({ tenantId, table: 'kill_switch', key: id })),
    ...policies
      .filter(({ lifecycle }) => lifecycle !== 'draft')
      .map(({ tenantId, id }) => nameOf({ tenantId, table: 'policy', key: String(id) })),
    ...bindings.map(({ tenantId, name }) => nameOf({ tenantId, table: 'binding', key: name })),
    ...(await othersPresent(db, where, said)),
  ]);
  const removals = await signedRows({ db, guard }, 'binding_removal').findUnverified({ where });
  await reportOutdatedRows(deps, where, said);
  for (const one of said) {
    // A credential that is missing is not injected: it gives no authority.
    if (
      one.table === 'credential' ||
      present.has(nameOf(one)) ||
      (await isRemoved(deps, one, removals))
    )
      continue;
    const { tenantId, table, key } = one;
    guard.forged({ tenantId, table, key, found: 'missing' });
    suspect(one, `${table} ${key}`);
  }
  return { suspects, armed: armedIn(switches, positions, nowMs) };
}

/** What the rows of a table claim; the forged ones are suspect. */
async function claimsWithSuspects<Table extends 'kill_switch' | 'policy'>(
  rows: SignedRows<Table>,
  where: Where<Table>,
  suspect: (row: SignedPart<Table>) => void,
): Promise<readonly SignedPart<Table>[]> {
  const found = await rows.findSigned({ where } as ListQuery<Table>);
  for (const row of found) if (!rows.isValid(row)) suspect(claimsOf(row));
  return found.map(claimsOf);
}

/** Of the tables whose rows are only looked for: whether they are signed is asked where they are used. */
async function othersPresent(
  db: Deps['db'],
  where: { readonly tenantId?: string },
  said: readonly LedgerVersion[],
): Promise<readonly string[]> {
  const keysOf = (table: LedgerVersion['table']) =>
    said.filter((one) => one.table === table).map(({ key }) => key);
  const keys = { tool: keysOf('tool'), user: keysOf('directory_user') };
  const jtis = keysOf('passport_revocation');
  const some = { tenantId: true } as const;
  const tools =
    keys.tool.length === 0
      ? []
      : await claimedRows(db, 'tool').findClaims(['tenantId', 'name'], { where });
  const users =
    keys.user.length === 0
      ? []
      : await claimedRows(db, 'directory_user').findClaims(['tenantId', 'id'], { where });
  const revoked =
    jtis.length === 0
      ? []
      : await db.passportRevocation.findMany({ where, select: { ...some, jti: true } });
  return [
    ...tools.map(({ tenantId, name: key }) => nameOf({ tenantId, table: 'tool', key })),
    ...users.map(({ tenantId, id: key }) => nameOf({ tenantId, table: 'directory_user', key })),
    ...revoked.map(({ tenantId, jti: key }) =>
      nameOf({ tenantId, table: 'passport_revocation', key }),
    ),
  ];
}

/** Credentials that were put back. They are not used, so that the tenant is not stopped. */
async function reportOutdatedRows(
  { db, guard }: Deps,
  where: { readonly tenantId?: string },
  said: readonly LedgerVersion[],
): Promise<void> {
  const standings = standingsOf(said);
  if (standings.size === 0) return;
  for (const row of await db.credential.findMany({ where })) {
    const as = outdatedAs(standings, row);
    if (as !== undefined) reportOutdated({ guard }, row, as);
  }
}

/**
 * A removed binding left a tombstone. It is that of the ledger's last word, or of an event that
 * waits to be sealed: one of an earlier removal, put back, says nothing.
 */
async function isRemoved(
  { query, guard, vault }: Deps,
  said: LedgerVersion,
  removals: readonly Unverified<BindingRemoval>[],
): Promise<boolean> {
  const { tenantId, table, key, isEnded, eventId } = said;
  if (table !== 'binding') return false;
  const found = removals.find((row) => {
    const claimed = claimsOf(row);
    return claimed.tenantId === tenantId && claimed.name === key;
  });
  const tombstone = found && validRow(guard, 'binding_removal', found);
  if (tombstone === undefined) return false;
  if (isEnded && tombstone.eventId === eventId) return true;
  const position = guard.known.get(tenantId)?.position ?? 0;
  return isWaiting(query, vault, { tenantId, eventId: tombstone.eventId, position });
}

function armedIn(
  switches: readonly SignedPart<'kill_switch'>[],
  positions: ReadonlyMap<string, number>,
  nowMs: number,
): ReadonlyMap<string, ArmedKillSwitches> {
  const isArmed = ({ disarmedAt, expiresAt }: SignedPart<'kill_switch'>) =>
    disarmedAt === null && (expiresAt === null || expiresAt.getTime() > nowMs);
  const ids = Map.groupBy(switches.filter(isArmed), ({ tenantId }) => tenantId);
  return new Map(
    [...positions].map(([tenantId, position]) => [
      tenantId,
      { position, ids: (ids.get(tenantId) ?? []).map(({ id }) => id) },
    ]),
  );
}

function nameOf({
  tenantId,
  table,
  key,
}: Pick<LedgerVersion, 'tenantId' | 'table' | 'key'>): string {
  return JSON.stringify([tenantId, table, key]);
}
