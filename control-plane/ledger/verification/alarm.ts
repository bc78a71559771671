import type { JsonObject } from '../../../shared/base/json.ts';
import { enqueue } from '../../platform/outbound/enqueue.ts';
import { type Transaction, transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { deduplicatedEventId, isUnrecorded } from '../sealing/event-deduplication.ts';
import { ledgerChain } from '../sealing/incident.ts';
import { newEvent } from '../sealing/new-event.ts';

interface Alarm {
  /** Type of both the event and the message. */
  readonly type: 'chain_verification_failed' | 'evidence.rolled_back';
  /** Identifies the case. Webhooks get one message per case and hour. */
  readonly key: string;
  readonly data: JsonObject;
  /** True: one event and one message per case. False: one event per call. */
  readonly isOnce?: boolean | undefined;
  /** Further changes, made on every call in the same transaction. */
  readonly also?: ((tx: Transaction) => Promise<void>) | undefined;
}

const quietMs = 60 * 60_000;

/**
 * Reports a damaged ledger: records an event on the chain of ledger incidents and queues a
 * notification. Commits both before it tries to seal, because a damaged ledger may accept no more
 * events. The first event of a case has an id derived from the case, so that the database detects
 * repeats. Never rejects.
 */
export async function raiseAlarm(
  services: LedgerServices,
  tenantId: string,
  { type, key, data, isOnce = false, also }: Alarm,
): Promise<void> {
  const { db, ledger, log, vault, clock } = services;
  log.error({ tenantId, type, ...data }, 'the ledger is not in order');
  const hour = isOnce ? '' : ` ${Math.floor(clock.now() / quietMs)}`;
  const id = deduplicatedEventId(vault, { tenantId, about: `${type} ${key}${hour}` });
  try {
    let eventId: string | undefined;
    await transaction(db, async (tx) => {
      const isNew = await isUnrecorded(tx, tenantId, id);
      if (isNew || !isOnce) {
        const event = newEvent(
          { type, chainId: ledgerChain, data, id: isNew ? id : undefined },
          clock,
        );
        await ledger.record(tx, tenantId, event);
        eventId = event.id;
      }
      await also?.(tx);
      if (!isNew) return;
      const messageType = type.startsWith('evidence.') ? type : `evidence.${type}`;
      await enqueue(services, tx, tenantId, { type: messageType, subject: 'ledger', data });
    });
    if (eventId !== undefined) await ledger.sealed(tenantId, eventId);
  } catch (error) {
    log.error({ err: error, tenantId, type }, 'the alarm could not be recorded whole');
  }
}
