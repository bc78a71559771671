import type { Pool, QueryResultRow } from 'pg';

const planStates = new Set(['26000', '42P05']);

/**
 * Returns whether a statement failed because connections share a session (embedded database,
 * poolers). Its prepared statement then belongs to another connection.
 */
export function isForeignStatement(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : '';
  return typeof code === 'string' && planStates.has(code);
}

/**
 * Pools that must not use prepared statements. In these pools, a statement outlives its connection
 * and conflicts with the statements of the next connection.
 */
const withoutPlans = new WeakSet<Pool>();

/**
 * Runs a small statement as a prepared statement, because planning it takes longer than executing
 * it. Each `name` must belong to only one text.
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
