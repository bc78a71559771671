import type { Pool, QueryResultRow } from 'pg';

const planStates = new Set(['26000', '42P05']);

/**
 * Whether a statement failed because connections share a session (embedded database, poolers), so
 * that its prepared statement belongs to another connection.
 */
export function isForeignStatement(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : '';
  return typeof code === 'string' && planStates.has(code);
}

/**
 * Pools without prepared statements. In these pools, a statement outlives its connection and
 * conflicts with the statements of the next connection.
 */
const withoutPlans = new WeakSet<Pool>();

/**
 * Runs a small statement as a prepared one, because its planning takes longer than its execution.
 * Each `name` must belong to exactly one text.
 */
export async function queryPrepared<Row extends QueryResultRow>(
  pool: Pool,
  { name, text }: { readonly name: string; readonly text: string },
  values: unknown[],
): Promise<Row[]> {
  if (!withoutPlans.has(pool)) {
    try {
      return (await pool.query<Row>({ name, text, values })).rows;
    } catch (error) {
      if (!isForeignStatement(error)) throw error;
      withoutPlans.add(pool);
    }
  }
  return (await pool.query<Row>({ text, values })).rows;
}
