import { lockFor, type Transaction } from '../../platform/store/transaction.ts';
import type { Vault } from '../../platform/vault/vault.ts';

interface Occurrence {
  readonly tenantId: string;
  /** Name of the occurrence. The same name results in the same event id. */
  readonly about: string;
}

/**
 * Returns the id of an event that is recorded only once for an occurrence. The id is a MAC, so that
 * a database writer cannot insert a row with this id in advance.
 */
export function deduplicatedEventId(
  vault: Pick<Vault, 'mac'>,
  { tenantId, about }: Occurrence,
): string {
  return `ev_${vault.mac('event_once', JSON.stringify([tenantId, about])).slice(0, 32)}`;
}

/**
 * Returns true if no event with this id is sealed or waits to be sealed. Locks the id until the
 * transaction ends, so that only one of two processes records the event. Asks the database and not
 * the bus, because a writer in Redis must not be able to suppress an alarm.
 */
export async function isUnrecorded(
  tx: Transaction,
  tenantId: string,
  eventId: string,
): Promise<boolean> {
  await lockFor(tx, tenantId, `event ${eventId}`);
  const where = { tenantId_eventId: { tenantId, eventId } };
  const select = { eventId: true };
  // Reads the outbox first, so that an event that is sealed between the two queries is found in the
  // ledger.
  if ((await tx.eventOutbox.findUnique({ where, select })) !== null) return false;
  return (await tx.evidenceRow.findUnique({ where, select })) === null;
}
