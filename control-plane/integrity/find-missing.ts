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
  /** `<table> <key>` of each forged or missing row, by tenant. */
  readonly suspects: ReadonlyMap<string, readonly string[]>;
  /** Armed kill switches, by tenant. */
  readonly armed: ReadonlyMap<string, ArmedKillSwitches>;
}

/**
 * Finds missing rows: compares the rows whose absence would give authority with the versions that
 * the ledger records, for one tenant or for all.
 */
export async function findMissing(deps: Deps, nowMs: number, tenantId?: string): Promise<Found> {
  const { db, query, guard } = deps;
  const suspects = new Map<string, string[]>();
  const suspect = (row: { readonly tenantId: string }, name: string) => {
    suspects.set(row.tenantId, [...(suspects.get(row.tenantId) ?? []), name]);
  };
  const where = tenantId === undefined ? {} : { tenantId };
  // Reads the ledger before the rows, because a row is committed before its event is sealed.
  forgetOld(guard.known, nowMs);
  const said = await activeVersions(query, guard.known, tenantId);
  // The positions are also taken before the rows are read. If a kill switch is armed later, its
  // event then has a later position and is found.
  const positions = new Map([...guard.known].map(([id, { position }]) => [id, position]));
  const switches = await claimsWithSuspects(
    signedRows({ db, guard }, 'kill_switch'),
    where,
    (row) => suspect(row, `kill_switch ${row.id}`),
  );
  // Includes drafts: a published policy never becomes a draft again, so one stored as a draft is
  // reported as missing.
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
    // A missing credential is not injected, so its absence gives no authority.
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

/** Returns the claims of all rows of a table; calls `suspect` for each forged row. */
async function claimsWithSuspects<Table extends 'kill_switch' | 'policy'>(
  rows: SignedRows<Table>,
  where: Where<Table>,
  suspect: (row: SignedPart<Table>) => void,
): Promise<readonly SignedPart<Table>[]> {
  const found = await rows.findSigned({ where } as ListQuery<Table>);
  for (const row of found) if (!rows.isValid(row)) suspect(claimsOf(row));
  return found.map(claimsOf);
}

/**
 * Returns the names of the existing rows of tools, users and passport revocations. Their signatures
 * are verified where the rows are used.
 */
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

/**
 * Reports outdated credentials that were restored. They do not block the tenant, because they are
 * not used.
 */
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
 * Returns whether a signed tombstone proves that the binding was removed. The tombstone must belong
 * to the last event in the ledger, or to an event in the outbox; a restored tombstone of an earlier
 * removal proves nothing.
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
