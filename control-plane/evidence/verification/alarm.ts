import type { JsonObject } from '../../../shared/base/json.ts';
import { commitChange } from '../../events.ts';
import { enqueue } from '../../notify/enqueue.ts';
import type { Services } from '../../services.ts';
import type { Transaction } from '../../store/transaction.ts';
import { ledgerChain } from '../incident.ts';

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
  services: Services,
  tenantId: string,
  { type, key, data, isOnce = false, also }: Alarm,
): Promise<void> {
  services.log.error({ tenantId, type, ...data }, 'the ledger is not in order');
  const told = `alarm:${type}:${key}`;
  const first = await services.bus.claim(tenantId, told, quietMs).catch(() => undefined);
  if (isOnce && first?.status === 'taken') return;
  try {
    await commitChange(services, tenantId, async (tx, notes) => {
      await notes.event({ type, chainId: ledgerChain, data });
      await also?.(tx);
      // Where the bus cannot say whether it was told, it is told again.
      if (first?.status === 'taken') return;
      const messageType = type.startsWith('evidence.') ? type : `evidence.${type}`;
      await enqueue(services, tx, tenantId, { type: messageType, subject: 'ledger', data });
    });
  } catch (error) {
    services.log.error({ err: error, tenantId, type }, 'the alarm could not be recorded whole');
  }
}
