import { z } from 'zod';
import type { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { LedgerVersion } from '../platform/integrity/known-ledgers.ts';
import { type OutboxVault, outboxMac } from '../platform/integrity/outbox-mac.ts';
import type { RowGuard } from '../platform/integrity/row-guard.ts';
import type { CredentialModel } from '../platform/store/generated/models/Credential.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { type Query, saidOfTenant } from './active-versions.ts';

export interface CredentialDeps {
  readonly db: Pick<Transaction, 'credential'>;
  readonly query: Query;
  readonly guard: Pick<RowGuard, 'known' | 'forged'>;
  readonly vault: OutboxVault;
}

/** State of a credential according to the ledger. */
interface Standing {
  readonly isRemoved: boolean;
  /** The newest version that was stored. */
  readonly version: number;
  readonly name: string;
}

type Standings = ReadonlyMap<string, Standing>;
type OutdatedAs = 'removed' | 'replaced' | 'renamed';

const prefix = 'credentials:';

/**
 * Returns the tenant's credentials that the ledger does not record as removed, sorted by name. A
 * row's envelope proves who sealed it, but a database writer could restore an older row. If the row
 * of a removed credential was restored, omits it. If an older version was restored, throws
 * `integrity.forged_row`, because the newer secret is lost. Reports both.
 */
export async function currentCredentials(
  deps: CredentialDeps,
  tenantId: string,
): Promise<readonly CredentialModel[]> {
  const { current, outdated } = await sortCredentials(deps, tenantId);
  for (const { row, as } of outdated) {
    const error = reportOutdated(deps, row, as);
    if (as !== 'removed') throw error;
  }
  return current;
}

interface Sorted {
  readonly current: readonly CredentialModel[];
  readonly outdated: readonly { readonly row: CredentialModel; readonly as: OutdatedAs }[];
}

/** Separates current rows from outdated rows, without reporting them. */
export async function sortCredentials(deps: CredentialDeps, tenantId: string): Promise<Sorted> {
  const read = () => deps.db.credential.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
  const rows = await read();
  if (rows.length === 0) return { current: [], outdated: [] };
  const standings = await credentialStandings(deps, tenantId);
  const sorted = sort(rows, standings);
  // Reads again, because a row that changed during the first read can seem outdated.
  return sorted.outdated.length === 0 ? sorted : sort(await read(), standings);
}

function sort(rows: readonly CredentialModel[], standings: Standings): Sorted {
  const judged = rows.map((row) => ({ row, as: outdatedAs(standings, row) }));
  return {
    current: judged.flatMap(({ row, as }) => (as === undefined ? [row] : [])),
    outdated: judged.flatMap(({ row, as }) => (as === undefined ? [] : [{ row, as }])),
  };
}

/**
 * Returns the reason why a row must not be used, or undefined if it may be used. A credential that
 * the ledger does not mention may be used.
 */
export function outdatedAs(
  standings: Standings,
  { id, name, version }: Pick<CredentialModel, 'id' | 'name' | 'version'>,
): OutdatedAs | undefined {
  const standing = standings.get(id);
  if (standing === undefined) return undefined;
  if (standing.isRemoved) return 'removed';
  if (version < standing.version) return 'replaced';
  // The name decides which of two credentials is used for a call.
  return name === standing.name ? undefined : 'renamed';
}

/**
 * Seals and counts an incident for the outdated row. Returns the error for requests that depend on
 * the row.
 */
export function reportOutdated(
  { guard }: Pick<CredentialDeps, 'guard'>,
  { tenantId, id, version, name, sealed }: CredentialModel,
  as: OutdatedAs,
): GatewayError {
  const found = JSON.stringify([as, name, version, sealed]);
  return guard.forged({ tenantId, table: 'credential', key: id, found });
}

/** Returns the state of each credential by id, from sealed events and from events in the outbox. */
export async function credentialStandings(
  { query, guard, vault }: Omit<CredentialDeps, 'db'>,
  tenantId: string,
): Promise<Standings> {
  // Reads the outbox first, so that an event sealed between the two reads is found in the ledger.
  const waiting = await waitingEvents(query, vault, tenantId);
  const said = await saidOfTenant(query, guard.known, tenantId);
  const standings = standingsOf(said);
  for (const { type, data } of waiting) {
    const { credential_id: id, version, name } = data;
    const before = standings.get(id);
    standings.set(id, {
      isRemoved: before?.isRemoved === true || type === 'credential.removed',
      version: Math.max(before?.version ?? 0, version),
      name,
    });
  }
  return standings;
}

/** Returns the state of each credential by id, from sealed events only. */
export function standingsOf(said: readonly LedgerVersion[]): Map<string, Standing> {
  const credentials = said.filter(({ table }) => table === 'credential');
  return new Map(
    credentials.map(({ key, isEnded, version, chainId }) => [
      key,
      { isRemoved: isEnded, version, name: chainId.slice(prefix.length) },
    ]),
  );
}

const credentialEvent = z.object({
  type: z.enum(['credential.stored', 'credential.removed']),
  data: z.object({ credential_id: z.string(), name: z.string(), version: z.number() }),
});

async function waitingEvents(query: Query, vault: OutboxVault, tenantId: string) {
  const rows = await query<{ event_id: string; event: string; mac: string | null }>(
    `select event_id, event, mac from event_outbox
      where tenant_id = $1 and (strpos(event, '"credential.stored"') > 0
                             or strpos(event, '"credential.removed"') > 0)
      order by id`,
    [tenantId],
  );
  return rows.flatMap(({ event_id: eventId, event, mac }) => {
    if (mac !== outboxMac(vault, { tenantId, eventId, event })) return [];
    const read = credentialEvent.safeParse(JSON.parse(event));
    return read.success ? [read.data] : [];
  });
}
