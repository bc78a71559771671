import fs from 'node:fs';
import { readConfig } from '../../control-plane/platform/config/config.ts';
import { openStore } from '../../control-plane/platform/store/open.ts';
import { programLog } from '../../shared/base/program-log.ts';
import { SettingsError } from '../../shared/base/settings.ts';

/** `sallyport admin migrate`. */
export async function migrateDatabase(): Promise<number> {
  const { databaseUrl, dataDir } = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  if (databaseUrl === undefined) {
    throw new SettingsError(
      'DATABASE_URL is not set. The embedded database applies its migrations when it starts; set DATABASE_URL or DATABASE_URL_FILE to migrate another one.',
    );
  }
  const log = programLog('sallyport-migrate', 'warn');
  const store = await openStore({ databaseUrl, dataDir, log });
  try {
    const lines = store.migrations.map((name) => `Applied ${name}`);
    console.log(lines.length === 0 ? 'The database has no pending migrations.' : lines.join('\n'));
    return 0;
  } finally {
    await store.close();
  }
}
