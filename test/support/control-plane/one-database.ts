import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { freshDatabase } from '../programs/postgres.ts';
import { type TestServices, testServices } from './services.ts';

interface OneDatabase {
  readonly url: string;
  /**
   * Starts services on the same database, as another process would: they share no memory with
   * earlier ones. They are closed after the test.
   */
  begin(): Promise<TestServices>;
  /** Closes all services that were started. */
  endAll(): Promise<void>;
}

/** Creates a database before the tests of one file, and drops it after them. */
export function oneDatabase(): OneDatabase {
  const masterKey = randomBytes(32);
  const begun: TestServices[] = [];
  let database: Awaited<ReturnType<typeof freshDatabase>> | undefined;
  const one: OneDatabase = {
    get url() {
      return database?.url ?? '';
    },
    async begin() {
      const services = await testServices({ databaseUrl: one.url, masterKey });
      begun.push(services);
      return services;
    },
    async endAll() {
      for (const services of begun.splice(0)) await services.close();
    },
  };
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterEach(one.endAll);
  afterAll(async () => {
    await database?.drop();
  });
  return one;
}
