import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres.ts';
import { findProgram } from './programs.ts';
import { findServer } from './redis.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Superuser URL of a Postgres that this run started. */
    postgresUrl: string;
  }
}

/**
 * Finds or installs Redis and the clients that the tests use, and starts the Postgres that the
 * tests share. Returns a function that stops Postgres.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await findServer();
  for (const client of ['curl', 'openssl', 'python3'] as const) await findProgram([client]);
  const postgres = await startPostgres();
  project.provide('postgresUrl', postgres.url);
  return async () => {
    await postgres.stop();
  };
}
