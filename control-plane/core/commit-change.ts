import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent, SealedEvent } from '../../shared/ledger/event.ts';
import type { SectionName } from '../../shared/sync/sections.ts';
import { type NewEvent, newEvent } from '../ledger/sealing/new-event.ts';
import { type SignedRows, signedRows } from '../platform/signed-store/signed-rows.ts';
import type { StoredTable } from '../platform/signed-store/tables.ts';
import { type Transaction, transaction } from '../platform/store/transaction.ts';
import type { Services } from './services.ts';

/** Writes signed rows, and records the events and sections that belong to a change. */
export interface ChangeNotes {
  /** Commits this event together with the change. */
  event(fields: NewEvent): Promise<EvidenceEvent>;
  /** Rows of a signed table, in this transaction. */
  rows<Table extends StoredTable>(table: Table): SignedRows<Table>;
  /** Bumps these sections, so that sidecars receive the change. */
  sections(...names: readonly SectionName[]): void;
}

/**
 * Commits a change of state in one transaction with its events and section versions; returns when
 * the events are sealed. If sealing fails, the change stays committed and its events wait in the
 * outbox.
 */
export async function commitChange<Result>(
  services: Services,
  tenantId: string,
  change: (tx: Transaction, notes: ChangeNotes) => Promise<Result>,
): Promise<{ readonly result: Result; readonly sealed: readonly SealedEvent[] }> {
  const { db, ledger, publisher, clock, guard } = services;
  const eventIds: string[] = [];
  const sections = new Set<SectionName>();
  const result = await transaction(db, async (tx) => {
    // A retried transaction must not keep notes of an earlier try.
    eventIds.length = 0;
    sections.clear();
    const made = await change(tx, {
      async event(fields) {
        const event = newEvent(fields, clock);
        await ledger.record(tx, tenantId, event);
        eventIds.push(event.id);
        return event;
      },
      rows: (table) => signedRows({ db: tx, guard }, table),
      sections: (...names) => {
        for (const name of names) sections.add(name);
      },
    });
    if (sections.size > 0) await publisher.changed(tx, tenantId, ...sections);
    return made;
  });
  if (sections.size > 0) publisher.nudge();
  return { result, sealed: await sealedAll(ledger, tenantId, eventIds) };
}

async function sealedAll(
  ledger: Services['ledger'],
  tenantId: string,
  eventIds: readonly string[],
): Promise<readonly SealedEvent[]> {
  try {
    return await Promise.all(eventIds.map((id) => ledger.sealed(tenantId, id)));
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause;
    throw new GatewayError('evidence.seal_failed', { cause });
  }
}
