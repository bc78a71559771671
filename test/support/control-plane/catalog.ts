import type { Pool } from 'pg';

/**
 * Describes a database's tables as sorted lines: columns with type, nullability and default,
 * indexes, and keys. Omits the migration history and everything that a Prisma schema cannot express
 * (partial indexes, checks, triggers).
 */
export async function describeTables(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ line: string }>(`
    SELECT format('%s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN 'not null' END, pg_get_expr(d.adbin, d.adrelid)) AS line
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relkind = 'r' AND c.relname <> '_prisma_migrations'
    UNION ALL
    SELECT pg_get_indexdef(i.indexrelid)
      FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
     WHERE i.indpred IS NULL AND c.relname <> '_prisma_migrations'
    UNION ALL
    SELECT format('%s %s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
      FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
     WHERE k.contype IN ('p', 'u', 'f') AND c.relname <> '_prisma_migrations'
    ORDER BY 1`);
  return rows.map(({ line }) => line);
}
