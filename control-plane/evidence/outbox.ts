import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import { isJsonObject } from '../../shared/json.ts';
import type { Transaction } from '../services.ts';
import { type SealableEvent, toSealable } from './check-event.ts';
import { flagDeadLetter } from './dead-letter.ts';
import { unreadableIncident } from './incident.ts';
import type { Queryable } from './read-state.ts';

/** Puts an event into the outbox in the transaction of the change that it proves. */
export async function recordEvent(
  tx: Transaction,
  tenantId: string,
  event: EvidenceEvent,
): Promise<void> {
  // What could not be sealed later must not be promised now.
  toSealable(tenantId, event);
  await tx.eventOutbox.create({
    data: { tenantId, eventId: event.id, event: JSON.stringify(event) },
  });
}

interface OutboxRow {
  readonly id: string;
  readonly event_id: string;
  readonly event: string;
  readonly dead_lettered: boolean;
  readonly created_at: Date;
}

export interface OutboxEvent extends SealableEvent {
  readonly outboxId: string;
  /** The id that callers wait for: that of the event as it was recorded. */
  readonly eventId: string;
}

/** The tenant's events that wait, oldest first. */
export async function readOutbox(
  connection: Queryable,
  tenantId: string,
  limit: number,
): Promise<readonly OutboxEvent[]> {
  const { rows } = await connection.query<OutboxRow>(
    `SELECT id, event_id, event, dead_lettered, created_at
       FROM event_outbox WHERE tenant_id = $1 ORDER BY id LIMIT $2`,
    [tenantId, limit],
  );
  return rows.map((row) => ({
    outboxId: row.id,
    eventId: row.event_id,
    ...readEvent(tenantId, row),
  }));
}

function readEvent(tenantId: string, row: OutboxRow): SealableEvent {
  try {
    const recorded: unknown = JSON.parse(row.event);
    if (!isJsonObject(recorded)) throw new TypeError('not an object');
    // Every member that sealing reads is looked at by toSealable.
    const event = recorded as unknown as EvidenceEvent;
    return toSealable(tenantId, row.dead_lettered ? flagDeadLetter(event) : event);
  } catch {
    const occurredAt = row.created_at.toISOString();
    return toSealable(tenantId, unreadableIncident(row.event_id, row.event, occurredAt));
  }
}

/** Removes rows whose events are in the ledger already. */
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

/** Keeps an event whose sealing failed, so that it is sealed later, marked as late. */
export async function keepDeadLetter(
  connection: Queryable,
  tenantId: string,
  event: EvidenceEvent,
  reason: string,
): Promise<void> {
  await connection.query(
    `INSERT INTO event_outbox (tenant_id, event_id, event, dead_lettered, attempts, last_error)
     VALUES ($1, $2, $3, true, 1, $4) ON CONFLICT DO NOTHING`,
    [tenantId, event.id, JSON.stringify(event), reason],
  );
}

/** Marks rows whose sealing failed: they will be sealed as late. */
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

/** Tenants with events that wait. */
export async function tenantsWithOutbox(connection: Queryable): Promise<readonly string[]> {
  const { rows } = await connection.query<{ tenant_id: string }>(
    'SELECT DISTINCT tenant_id FROM event_outbox',
  );
  return rows.map(({ tenant_id: tenantId }) => tenantId);
}
