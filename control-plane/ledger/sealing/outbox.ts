import { isJsonObject } from '../../../shared/base/json.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { type OutboxVault, outboxMac } from '../../platform/integrity/outbox-mac.ts';
import type { Transaction } from '../../platform/store/transaction.ts';
import { type SealableEvent, toSealable } from './check-event.ts';
import { type DeadLetter, flagDeadLetter } from './dead-letter-flag.ts';
import { forgedIncident, unreadableIncident } from './incident.ts';
import type { Queryable } from './read-state.ts';

/** Stores an event in the outbox, in the transaction of the change that it proves. */
export async function recordEvent(
  tx: Transaction,
  { tenantId, vault }: { readonly tenantId: string; readonly vault: OutboxVault },
  event: EvidenceEvent,
): Promise<void> {
  // Throws here for an event that could not be sealed later.
  toSealable(tenantId, event);
  const row = { tenantId, eventId: event.id, event: JSON.stringify(event) };
  await tx.eventOutbox.create({ data: { ...row, mac: outboxMac(vault, row) } });
}

interface OutboxRow {
  readonly id: string;
  readonly event_id: string;
  readonly event: string;
  readonly dead_lettered: boolean;
  readonly created_at: Date;
  readonly mac: string | null;
}

export interface OutboxEvent extends SealableEvent {
  readonly outboxId: string;
  /**
   * True if the row failed its integrity check. The event to seal is then an incident that reports
   * this failure.
   */
  readonly isForged: boolean;
  /** Id that callers wait for: the id of the event as recorded. */
  readonly eventId: string;
}

/** Returns the tenant's waiting events, oldest first. */
export async function readOutbox(
  connection: Queryable,
  { tenantId, vault }: { readonly tenantId: string; readonly vault: OutboxVault },
  limit: number,
): Promise<readonly OutboxEvent[]> {
  const { rows } = await connection.query<OutboxRow>(
    `SELECT id, event_id, event, dead_lettered, created_at, mac
       FROM event_outbox WHERE tenant_id = $1 ORDER BY id LIMIT $2`,
    [tenantId, limit],
  );
  return rows.map((row) => {
    const { id: outboxId, event_id: eventId, event } = row;
    const isForged = row.mac !== outboxMac(vault, { tenantId, eventId, event });
    const sealable = isForged
      ? toSealable(tenantId, forgedIncident(eventId, event, timeOf(row)))
      : readEvent(tenantId, row);
    return { outboxId, eventId, isForged, ...sealable };
  });
}

function readEvent(tenantId: string, row: OutboxRow): SealableEvent {
  try {
    const recorded: unknown = JSON.parse(row.event);
    if (!isJsonObject(recorded)) throw new TypeError('not an object');
    // The cast is safe, because toSealable checks every member that sealing reads.
    const event = recorded as unknown as EvidenceEvent;
    return toSealable(tenantId, row.dead_lettered ? flagDeadLetter(event) : event);
  } catch {
    return toSealable(tenantId, unreadableIncident(row.event_id, row.event, timeOf(row)));
  }
}

/**
 * Returns a time that depends only on the row, so that each retry makes the same incident. If an
 * event cannot have the row's time, returns the epoch.
 */
function timeOf({ created_at: createdAt }: OutboxRow): string {
  const year = createdAt instanceof Date ? createdAt.getUTCFullYear() : Number.NaN;
  return year > 0 && year < 10_000 ? createdAt.toISOString() : new Date(0).toISOString();
}

/** Deletes rows whose events are already sealed. */
export async function deleteFromOutbox(
  connection: Queryable,
  tenantId: string,
  outboxIds: readonly string[],
): Promise<void> {
  await connection.query(
    'DELETE FROM event_outbox WHERE tenant_id = $1 AND id = ANY($2::bigint[])',
    [tenantId, outboxIds],
  );
}

/** Stores an event whose sealing failed. The event is sealed later and then marked as late. */
export async function keepDeadLetter(
  connection: Queryable,
  vault: OutboxVault,
  { tenantId, event, reason }: DeadLetter,
): Promise<void> {
  const text = JSON.stringify(event);
  const mac = outboxMac(vault, { tenantId, eventId: event.id, event: text });
  await connection.query(
    `INSERT INTO event_outbox (tenant_id, event_id, event, dead_lettered, attempts, last_error, mac)
     VALUES ($1, $2, $3, true, 1, $4, $5) ON CONFLICT DO NOTHING`,
    [tenantId, event.id, text, reason, mac],
  );
}

/** Marks rows whose sealing failed, so that they are sealed as late. */
export async function markDeadLetters(
  connection: Queryable,
  tenantId: string,
  outboxIds: readonly string[],
  reason: string,
): Promise<void> {
  await connection.query(
    `UPDATE event_outbox SET dead_lettered = true, attempts = attempts + 1, last_error = $3
      WHERE tenant_id = $1 AND id = ANY($2::bigint[])`,
    [tenantId, outboxIds, reason],
  );
}

/** Returns the tenants that have waiting events. */
export async function tenantsWithOutbox(connection: Queryable): Promise<readonly string[]> {
  const { rows } = await connection.query<{ tenant_id: string }>(
    'SELECT DISTINCT tenant_id FROM event_outbox',
  );
  return rows.map(({ tenant_id: tenantId }) => tenantId);
}
