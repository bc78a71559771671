import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import { newId } from '../../shared/ids.ts';
import type { JsonObject } from '../../shared/json.ts';
import type { Services, Transaction } from '../services.ts';

interface AdministrativeChange {
  readonly type: string;
  readonly chainId: string;
  /** Who made it: the principal of the key. */
  readonly by: string;
  readonly data: JsonObject;
}

/** The event of a change that a person or service made to how Sallyport itself is set up. */
export function administrationEvent(
  { clock }: Pick<Services, 'clock'>,
  { type, chainId, by, data }: AdministrativeChange,
): EvidenceEvent {
  const now = clock.now();
  return {
    id: newId('ev', now),
    type,
    chain_id: chainId,
    occurred_at: new Date(now).toISOString(),
    source: 'control-plane',
    data: { by, ...data },
  };
}

/**
 * After the transaction that recorded an event: waits until it is sealed. The change has
 * happened and its event is committed with it, so that a sealer that lags is logged, not answered.
 */
export async function awaitSealed(
  { ledger, log }: Pick<Services, 'ledger' | 'log'>,
  tenantId: string,
  eventId: string,
): Promise<void> {
  try {
    await ledger.sealed(tenantId, eventId);
  } catch (err) {
    log.warn({ err, eventId }, 'an event is committed but not sealed yet');
  }
}

/** Until the transaction ends, nobody else in the cluster is past this point with the same name. */
export async function lockFor(tx: Transaction, name: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${name}, 0))`;
}
