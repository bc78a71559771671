import type { ClientBase } from 'pg';
import { signedTables } from '../store/signed-columns.ts';
import { StoreError } from '../store/store-error.ts';

/** Tables whose rows already had keyed hashes when the master key was the root of these hashes. */
const legacyHashedTables: readonly string[] = ['approval', 'policy'];

/**
 * Throws if the database had a root secret and lost it. Signed rows prove this. Otherwise the
 * master key would become the root, and anyone who knows the master key could sign rows.
 */
export async function assertLegacyDatabase(client: ClientBase): Promise<void> {
  const signed = signedTables
    .filter((table) => !legacyHashedTables.includes(table))
    .map((table) => [`signed rows in ${table}`, `SELECT FROM ${table} WHERE mac IS NOT NULL`]);
  const others = [
    ['the marker of signed rows', 'SELECT FROM integrity_baseline'],
    ['control planes that held its keys', 'SELECT FROM vault_holder'],
    ['events of its master keys', eventsLike('master_key.%')],
    ['events of its signed rows', eventsLike('integrity.%')],
  ];
  const found: string[] = [];
  for (const [what = '', sql = ''] of [...signed, ...others]) {
    const { rows } = await client.query<{ exists: boolean }>(`SELECT EXISTS (${sql})`);
    if (rows[0]?.exists !== false) found.push(what);
  }
  if (found.length === 0) return;
  throw new StoreError(
    'The root secret of the vault and the record of its master keys are missing (tables vault_root and vault_key), ' +
      `but the database has ${found.join(', ')}: so they existed before. Restore both tables from one backup.`,
  );
}

function eventsLike(pattern: string): string {
  return `SELECT FROM evidence_row WHERE type LIKE '${pattern}' UNION ALL
    SELECT FROM event_outbox WHERE event::jsonb ->> 'type' LIKE '${pattern}'`;
}
