import { setTimeout as sleep } from 'node:timers/promises';
import type { Prisma, PrismaClient } from './generated/client.ts';

/** Database transaction of a use case. */
export type Transaction = Prisma.TransactionClient;

const triesMax = 5;

/**
 * Runs `work` in one transaction. Retries it after a serialization failure or deadlock, at most
 * five times. `work` may run several times, so a rollback must undo all its effects. `work` must
 * not wait for the sealer, because the sealer may need the connection that this transaction holds.
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

const conflictStates = new Set(['40001', '40P01']);

/**
 * Returns whether an error is a conflict with another transaction. If the transaction is repeated,
 * it may succeed.
 */
export function isConflict(error: unknown): boolean {
  return textAt(error, 'code') === 'P2034' || conflictStates.has(sqlStateOf(error));
}

/** Returns the SQLSTATE of an error from `pg`, or from a raw query of Prisma. */
function sqlStateOf(error: unknown): string {
  const cause = memberOf(memberOf(memberOf(error, 'meta'), 'driverAdapterError'), 'cause');
  return textAt(cause, 'originalCode') ?? textAt(error, 'code') ?? '';
}

function textAt(value: unknown, name: string): string | undefined {
  const member = memberOf(value, name);
  return typeof member === 'string' ? member : undefined;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** Locks `name` until the transaction ends. */
export async function lockFor(tx: Transaction, tenantId: string, name: string): Promise<void> {
  await tx.$executeRaw`select pg_advisory_xact_lock(hashtextextended(${`${tenantId} ${name}`}, 0))`;
}
