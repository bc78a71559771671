import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Migration {
  /** The folder's name, which begins with a time stamp and so gives the order. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file, hex, as Prisma keeps it. */
  readonly checksum: string;
}

const migrationsFolder = join(import.meta.dirname, '../../../prisma/migrations');

/** The migrations of this version, in the order they apply. */
export function readMigrations(folder: string = migrationsFolder): readonly Migration[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
    .map((name) => {
      const sql = readFileSync(join(folder, name, 'migration.sql'), 'utf8');
      return { name, sql, checksum: hash('sha256', sql, 'hex') };
    });
}
