import type { Services } from '../core/services.ts';
import { liveHolders } from '../platform/vault/hold-keys.ts';
import type { OpenKeys } from '../platform/vault/open-keys.ts';
import { countWrapped } from '../platform/vault/rewrap-column.ts';
import { sealedColumns } from '../platform/vault/sealed-columns.ts';

export interface VaultStatus {
  /** Id of the active master key. */
  readonly active: string;
  readonly keys: readonly {
    readonly id: string;
    readonly provider: string;
    readonly state: string;
    readonly created_at: string;
    readonly retired_at: string | null;
    /** Number of data keys that this key wraps. */
    readonly secrets: number;
  }[];
  /** Number of secrets that no key of this installation wraps. */
  readonly foreign_secrets: number;
  /** The running control planes. */
  readonly control_planes: readonly {
    readonly id: string;
    readonly keys: readonly string[];
    readonly active: string;
  }[];
  /** True if the active key wraps every secret. */
  readonly is_settled: boolean;
}

/**
 * Lists the master keys, how many secrets each of them wraps, and the control planes that have
 * them. Reads the envelope of every secret.
 */
export async function vaultStatus(
  { keyring }: Pick<OpenKeys, 'keyring'>,
  { db, pool }: Pick<Services, 'db' | 'pool'>,
): Promise<VaultStatus> {
  const rows = await db.vaultKey.findMany({ orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] });
  const counts = new Map<string, number>();
  for (const column of sealedColumns) {
    for (const [id, count] of await countWrapped(pool, column)) {
      counts.set(id, (counts.get(id) ?? 0) + count);
    }
  }
  const keys = rows.map(({ id, provider, state, createdAt, retiredAt }) => ({
    id,
    provider,
    state,
    created_at: createdAt.toISOString(),
    retired_at: retiredAt?.toISOString() ?? null,
    secrets: counts.get(id) ?? 0,
  }));
  const known = new Set(rows.map(({ id }) => id));
  const foreign = [...counts].filter(([id]) => !known.has(id));
  const active = rows.find(({ state }) => state === 'active')?.id ?? keyring.active.id;
  const holders = await liveHolders(pool);
  return {
    active,
    keys,
    foreign_secrets: foreign.reduce((sum, [, count]) => sum + count, 0),
    control_planes: holders,
    is_settled:
      [...counts].every(([id]) => id === active) &&
      keys.every(({ state }) => state !== 'retiring') &&
      holders.every((holder) => holder.active === active),
  };
}
