import { keptMs, minuteOf } from '../../shared/usage/buckets.ts';
import type { Services } from '../core/services.ts';

/** Removes what no window reaches any more; returns how many rows. */
export async function sweepUsage({
  pool,
  clock,
}: Pick<Services, 'pool' | 'clock'>): Promise<number> {
  const oldest = minuteOf(clock.now() - keptMs);
  const { rowCount } = await pool.query('delete from usage_minute where minute < $1', [oldest]);
  return rowCount ?? 0;
}
