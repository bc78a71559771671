import type { JsonObject } from '../../../shared/base/json.ts';
import { enqueue } from '../../platform/outbound/enqueue.ts';
import { type Transaction, transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { ledgerChain } from '../sealing/incident.ts';
import { newEvent } from '../sealing/new-event.ts';

interface Alarm {
  /** Of the event and of the message. */
  readonly type: 'chain_verification_failed' | 'evidence.rolled_back';
  /** What tells this case from another: the same one is not told again for an hour. */
  readonly key: string;
  readonly data: JsonObject;
  /** The event, too, is recorded once for the case. */
  readonly isOnce?: boolean | undefined;
  /** Changed with it, in the same transaction. */
  readonly also?: ((tx: Transaction) => Promise<void>) | undefined;
}

const quietMs = 60 * 60_000;

/**
 * Something is wrong with the ledger itself: an event on its own chain, and a message to whoever
 * the tenant wants told. Both are committed before sealing is tried, for a ledger that is damaged
 * may take nothing more. Never rejects.
 */
export async function raiseAlarm(
  services: LedgerServices,
  tenantId: string,
  { type, key, data, isOnce = false, also }: Alarm,
): Promise<void> {
  services.log.error({ tenantId, type, ...data }, 'the ledger is not in order');
  const told = `alarm:${type}:${key}`;
  const first = await services.bus.claim(tenantId, told, quietMs).catch(() => undefined);
  if (isOnce && first?.status === 'taken') return;
  try {
    const event = newEvent({ type, chainId: ledgerChain, data }, services.clock);
    await transaction(services.db, async (tx) => {
      await services.ledger.record(tx, tenantId, event);
      await also?.(tx);
      // Where the bus cannot say whether it was told, it is told again.
      if (first?.status === 'taken') return;
      const messageType = type.startsWith('evidence.') ? type : `evidence.${type}`;
      await enqueue(services, tx, tenantId, { type: messageType, subject: 'ledger', data });
    });
    await services.ledger.sealed(tenantId, event.id);
  } catch (error) {
    services.log.error({ err: error, tenantId, type }, 'the alarm could not be recorded whole');
  }
}
