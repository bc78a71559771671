import { lockFor, type Transaction } from '../../platform/store/transaction.ts';
import type { Vault } from '../../platform/vault/vault.ts';

interface Occurrence {
  readonly tenantId: string;
  /** Names the occurrence: the same name gives the same event id. */
  readonly about: string;
}

/**
 * Id of an event that is recorded once for an occurrence. It is a MAC, so that a writer in the
 * database cannot insert a row with this id before the occurrence.
 */
export function deduplicatedEventId(
  vault: Pick<Vault, 'mac'>,
  { tenantId, about }: Occurrence,
): string {
  return `ev_${vault.mac('event_once', JSON.stringify([tenantId, about])).slice(0, 32)}`;
}

/**
 * Whether no event with this id is sealed or waits to be sealed. A lock on the id is held until the
 * transaction ends, so that exactly one of two processes records the event. The database decides,
 * not the bus, because a writer in Redis must not be able to suppress an alarm.
 */
export async function isUnrecorded(
  tx: Transaction,
  tenantId: string,
  eventId: string,
): Promise<boolean> {
  await lockFor(tx, tenantId, `event ${eventId}`);
  const where = { tenantId_eventId: { tenantId, eventId } };
  const select = { eventId: true };
  // Checks the outbox first: an event that is sealed between the two queries is then found in the
  // ledger.
  if ((await tx.eventOutbox.findUnique({ where, select })) !== null) return false;
  return (await tx.evidenceRow.findUnique({ where, select })) === null;
}
