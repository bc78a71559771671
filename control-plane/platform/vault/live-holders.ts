import type { Pool } from 'pg';

const forgottenAfter = '30 seconds';

/** The control planes that run, and the master keys that each knows. */
export async function liveHolders(
  pool: Pick<Pool, 'query'>,
): Promise<
  readonly { readonly id: string; readonly keys: readonly string[]; readonly active: string }[]
> {
  const { rows } = await pool.query<{ id: string; keys: string[]; active: string }>(
    `SELECT id, keys, active FROM vault_holder
      WHERE seen_at > clock_timestamp() - $1::interval ORDER BY id`,
    [forgottenAfter],
  );
  return rows;
}
