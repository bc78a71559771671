import type { RequestHandler } from 'express';
import type { DiskWatch } from '../../../shared/base/disk-watch.ts';
import type { ReadyAnswer } from '../../../shared/contract/base/health.ts';
import type { Platform } from '../platform.ts';

const checkMs = 2_000;

/** Liveness: reports that the process responds. Checks no dependency. */
export const answerHealth: RequestHandler = (_req, res) => {
  res.json({ status: 'ok' });
};

interface ReadyOptions {
  /** Disk watch of an embedded database; undefined for other databases. */
  readonly disk?: Pick<DiskWatch, 'isWritable'> | undefined;
  /** True: the response contains only the overall status. */
  readonly isBrief?: boolean;
}

/**
 * Readiness: checks database, bus, migrations and, for an embedded database, that the disk is
 * writable. Responses name the failed check; the cause is only logged.
 */
export function answerReady(
  { db, bus, log }: Pick<Platform, 'db' | 'bus' | 'log'>,
  { disk, isBrief = false }: ReadyOptions = {},
): RequestHandler {
  const checks = {
    ...(disk === undefined ? {} : { disk: () => requireWritable(disk) }),
    database: () => db.$queryRaw`SELECT 1`,
    bus: () => bus.ping(),
    migrations: () => requireMigrations(db),
  };
  return async (_req, res) => {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        try {
          await within(checkMs, check());
          return { name, ok: true };
        } catch (err) {
          log.warn({ err, check: name }, 'not ready');
          return { name, ok: false };
        }
      }),
    );
    const ready = results.every(({ ok }) => ok);
    const answer: ReadyAnswer = { ready, checks: isBrief ? [] : results };
    res.status(answer.ready ? 200 : 503).json(answer);
  };
}

async function requireWritable(disk: Pick<DiskWatch, 'isWritable'>): Promise<void> {
  if (!(await disk.isWritable())) throw new Error('the data directory cannot be written');
}

async function requireMigrations(db: Platform['db']): Promise<void> {
  const rows = await db.$queryRaw<{ done: number; open: number }[]>`
    SELECT count(*) FILTER (WHERE finished_at IS NOT NULL)::int AS done,
           count(*) FILTER (WHERE finished_at IS NULL AND rolled_back_at IS NULL)::int AS open
    FROM _prisma_migrations`;
  const { done = 0, open = 0 } = rows[0] ?? {};
  if (done === 0 || open > 0) throw new Error(`${done} migrations applied, ${open} unfinished`);
}

async function within<Value>(ms: number, promise: PromiseLike<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
