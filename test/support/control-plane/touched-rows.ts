import type { Pool } from 'pg';

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly Plan[];
}

export interface Touched {
  readonly statements: number;
  /** Number of ledger rows that the database read, including rows that it then discarded. */
  readonly touched: number;
  /** The largest number of rows that one sort received. */
  readonly sorted: number;
  /** Reads of the ledger without an index. */
  readonly scansOfAll: readonly string[];
}

/**
 * Runs a reader on a pool that explains every statement as it is executed, with its actual values.
 * Returns the cost of the statements.
 */
export async function touchedRows(
  pool: Pool,
  read: (pool: Pool) => Promise<unknown>,
): Promise<Touched> {
  const plans: Plan[] = [];
  const explaining = {
    query: async (
      first: string | { readonly text: string; readonly values: unknown[] },
      more?: unknown[],
    ) => {
      const { text, values } =
        typeof first === 'string' ? { text: first, values: more ?? [] } : first;
      const { rows } = await pool.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
        `EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) ${text}`,
        values,
      );
      plans.push(...rows.map((row) => row['QUERY PLAN'][0].Plan));
      return pool.query(first as string, more);
    },
  };
  await read(explaining as unknown as Pool);
  const nodes = plans.flatMap(allNodes);
  const onLedger = nodes.filter((node) => node['Relation Name'] === 'evidence_row');
  const sorts = nodes.filter((node) => node['Node Type'].includes('Sort'));
  return {
    statements: plans.length,
    touched: onLedger.reduce((sum, node) => sum + rowsOf(node), 0),
    sorted: Math.max(0, ...sorts.flatMap((node) => node.Plans ?? []).map(rowsOf)),
    scansOfAll: onLedger.map((node) => node['Node Type']).filter((type) => type.includes('Seq')),
  };
}

function allNodes(plan: Plan): readonly Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(allNodes)];
}

function rowsOf(node: Plan): number {
  const once =
    node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0);
  return once * node['Actual Loops'];
}
