import { isJsonObject } from '../../shared/base/json.ts';
import type { Services } from '../core/services.ts';

const shownMax = 100;

interface Waiting {
  readonly event_id: string;
  readonly type: string | null;
  readonly chain_id: string | null;
  readonly attempts: number;
  readonly last_error: string | null;
  readonly since: string;
}

/**
 * Returns a tenant's dead letters, oldest first. Events that exist only in this process's memory
 * come last.
 */
export async function listDeadLetters(
  { db, ledger }: Pick<Services, 'db' | 'ledger'>,
  tenantId: string,
) {
  const where = { tenantId, deadLettered: true };
  const rows = await db.eventOutbox.findMany({ where, orderBy: { id: 'asc' }, take: shownMax });
  const newest = await db.eventOutbox.findFirst({ where, orderBy: { id: 'desc' } });
  const unstored = ledger.unstored(tenantId);
  const kept = rows.map(
    ({ eventId, event, attempts, lastError, createdAt }): Waiting => ({
      event_id: eventId,
      ...namesIn(event),
      attempts,
      last_error: lastError,
      since: createdAt.toISOString(),
    }),
  );
  const waiting = [...kept, ...unstored.map(unstoredRecord)];
  return {
    count: (await db.eventOutbox.count({ where })) + unstored.length,
    oldest: waiting[0]?.since ?? null,
    last_error: unstored.at(-1)?.reason ?? newest?.lastError ?? null,
    dead_letters: waiting.slice(0, shownMax),
  };
}

function unstoredRecord({
  event,
  reason,
}: ReturnType<Services['ledger']['unstored']>[number]): Waiting {
  const { id, type, chain_id, occurred_at } = event;
  return { event_id: id, type, chain_id, attempts: 1, last_error: reason, since: occurred_at };
}

/** Retries to seal the dead letters; returns how many were sealed. */
export async function retryDeadLetters(
  { pool, ledger }: Pick<Services, 'pool' | 'ledger'>,
  tenantId: string,
) {
  const before = new Set([
    ...(await waitingIn(pool, tenantId)).keys(),
    ...unstoredIds(ledger, tenantId),
  ]);
  await ledger.retry(tenantId);
  const left = await waitingIn(pool, tenantId);
  const unstored = unstoredIds(ledger, tenantId);
  const waiting = new Set([...left.keys(), ...unstored]);
  return {
    sealed: [...before].filter((id) => !waiting.has(id)).length,
    count: waiting.size,
    last_error: ledger.unstored(tenantId).at(-1)?.reason ?? [...left.values()].at(-1) ?? null,
  };
}

/** Returns the last sealing error of each waiting event, by event id. */
async function waitingIn(
  pool: Services['pool'],
  tenantId: string,
): Promise<ReadonlyMap<string, string | null>> {
  const { rows } = await pool.query<{ event_id: string; last_error: string | null }>(
    `SELECT event_id, last_error FROM event_outbox
      WHERE tenant_id = $1 AND dead_lettered ORDER BY id`,
    [tenantId],
  );
  return new Map(rows.map((row) => [row.event_id, row.last_error]));
}

function unstoredIds(ledger: Services['ledger'], tenantId: string): readonly string[] {
  return ledger.unstored(tenantId).map(({ event }) => event.id);
}

function namesIn(event: string): {
  readonly type: string | null;
  readonly chain_id: string | null;
} {
  try {
    const said: unknown = JSON.parse(event);
    if (!isJsonObject(said)) return { type: null, chain_id: null };
    return { type: textOf(said.type), chain_id: textOf(said.chain_id) };
  } catch {
    return { type: null, chain_id: null };
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
