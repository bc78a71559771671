import { lockFor, type Transaction } from '../../platform/store/transaction.ts';
import type { Vault } from '../../platform/vault/vault.ts';

interface Once {
  readonly tenantId: string;
  /** Names the case: the same one is recorded under the same id. */
  readonly about: string;
}

/**
 * The id of an event that is recorded once for a case. It is keyed, so that a writer in the
 * database cannot occupy it before the case occurs.
 */
export function onceId(vault: Pick<Vault, 'mac'>, { tenantId, about }: Once): string {
  return `ev_${vault.mac('event_once', JSON.stringify([tenantId, about])).slice(0, 32)}`;
}

/**
 * Whether no event with this id is sealed or waits to be sealed. Until the transaction ends no
 * other one can ask about the same id, so that of two processes one records the event. The
 * database decides this, never the bus: a writer in Redis must not be able to suppress an alarm.
 */
export async function isFirst(
  tx: Transaction,
  tenantId: string,
  eventId: string,
): Promise<boolean> {
  await lockFor(tx, tenantId, `event ${eventId}`);
  const where = { tenantId_eventId: { tenantId, eventId } };
  const select = { eventId: true };
  // The outbox first: an event that is sealed in between is then found in the ledger.
  if ((await tx.eventOutbox.findUnique({ where, select })) !== null) return false;
  return (await tx.evidenceRow.findUnique({ where, select })) === null;
}
