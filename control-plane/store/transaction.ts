import { setTimeout as sleep } from 'node:timers/promises';
import { Prisma, type PrismaClient } from './generated/client.ts';

const triesMax = 5;

/**
 * Runs `work` in one transaction, again when the database gave way to another one
 * (serialization failure, deadlock), at most five times. `work` may so run more than once: it
 * does nothing that a rollback would not undo, and it never waits for the sealer, which may need
 * the very connection that this transaction holds.
 */
export async function transaction<T>(
  db: PrismaClient,
  work: (tx: Prisma.TransactionClient) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await db.$transaction(work);
    } catch (error) {
      if (tries === triesMax || !isConflict(error)) throw error;
      await sleep(Math.random() * 10 * 2 ** tries);
    }
  }
}

/** True for an error after which the same transaction may succeed: it lost against another. */
export function isConflict(error: unknown): boolean {
  if (error instanceof Prisma.PrismaClientKnownRequestError) {
    return error.code === 'P2034' || conflictStates.has(sqlStateOf(error.meta) ?? '');
  }
  return conflictStates.has(sqlStateOf(error) ?? '');
}

const conflictStates = new Set(['40001', '40P01']);

/** The SQLSTATE of an error of `pg`, or of a raw query through Prisma. */
function sqlStateOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
