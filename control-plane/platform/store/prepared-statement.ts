import type { Pool, QueryResultRow } from 'pg';

const planStates = new Set(['26000', '42P05']);

/**
 * Whether a statement failed because connections share a session, as those of the embedded
 * database and of poolers do: a plan kept under a name is then not the connection's own.
 */
export function isForeignStatement(error: unknown): boolean {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : '';
  return typeof code === 'string' && planStates.has(code);
}

/** Pools on which plans cannot be kept: they outlive their connection there, and are in the next one's way. */
const withoutPlans = new WeakSet<Pool>();

/**
 * Runs a statement that is planned once for each connection, where planning takes longer than a
 * small statement itself. `name` belongs to this text alone.
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
