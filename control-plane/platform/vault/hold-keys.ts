import type { Pool } from 'pg';
import { newId } from '../../../shared/base/ids.ts';
import type { Log } from '../../../shared/base/log.ts';
import { type Rounds, startRounds } from '../scheduling/rounds.ts';
import { type OpenKeys, refreshKeys } from './open-keys.ts';

const intervalMs = 2_000;

interface Holding {
  readonly pool: Pool;
  readonly log: Log;
}

/**
 * Registers this process as a holder of the vault's keys, reports the keys it knows, and follows
 * changes of the active key. Resolves when the process is registered; nothing may be encrypted
 * earlier.
 */
export async function holdKeys(keys: OpenKeys, { pool, log }: Holding): Promise<Rounds> {
  const holderId = newId('holder', Date.now());
  const deps = { pool, log, holderId };
  await refreshKeys(keys, deps);
  await pool.query(`DELETE FROM vault_holder WHERE seen_at < clock_timestamp() - interval '1 day'`);
  const round = async () => {
    try {
      await refreshKeys(keys, deps);
    } catch (err) {
      log.warn({ err }, 'could not read the active master key');
    }
  };
  const rounds = startRounds(round, intervalMs);
  return {
    async close() {
      await rounds.close();
      await pool
        .query('DELETE FROM vault_holder WHERE id = $1', [holderId])
        .catch((err: unknown) =>
          log.debug({ err }, 'could not remove this process from the holders of keys'),
        );
    },
  };
}

const forgottenAfter = '30 seconds';

/** Returns the running control planes, and the master keys that each of them knows. */
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
