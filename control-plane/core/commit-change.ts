import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent, SealedEvent } from '../../shared/ledger/event.ts';
import type { SectionName } from '../../shared/sync/sections.ts';
import { type NewEvent, newEvent } from '../ledger/sealing/new-event.ts';
import { signRow } from '../platform/integrity/sign-row.ts';
import type { SignedRow, SignedTable } from '../platform/store/signed-rows.ts';
import { type Transaction, transaction } from '../platform/store/transaction.ts';
import type { Services } from './services.ts';

/** Records the events, signatures and sections that belong to a change. */
export interface ChangeNotes {
  /** Commits this event together with the change. */
  event(fields: NewEvent): Promise<EvidenceEvent>;
  /** Stores the keyed hash of a row that was just written; returns the row with it. */
  signed<Table extends SignedTable, Row extends SignedRow<Table>>(
    table: Table,
    row: Row,
  ): Promise<Row>;
  isSigned<Table extends SignedTable>(table: Table, row: SignedRow<Table>): boolean;
  /**
   * Throws for a row that fails its integrity check. Call it before a change, which would otherwise
   * sign the row.
   */
  assertSigned<Table extends SignedTable>(table: Table, row: SignedRow<Table>): void;
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
      signed: (table, row) => signRow(tx, services, table, row),
      isSigned: (table, row) => guard.holds(table, row),
      assertSigned: (table, row) => guard.assert(table, row),
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
