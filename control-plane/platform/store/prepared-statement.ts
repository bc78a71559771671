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
 * Pools without prepared statements, because there they outlive their connection and conflict with
 * the next one's.
 */
const withoutPlans = new WeakSet<Pool>();

/**
 * Runs a prepared statement, for a small statement whose planning takes longer than its execution.
 * `name` must be unique to this text.
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
