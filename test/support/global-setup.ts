import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Superuser URL of a Postgres that this run started. */
    postgresUrl: string;
    /** URL of a Redis that this run started. */
    redisUrl: string;
  }
}

/** Starts what the tests share and returns how to end it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const postgres = await startPostgres();
  project.provide('postgresUrl', postgres.url);
  return async () => {
    await postgres.stop();
  };
}
