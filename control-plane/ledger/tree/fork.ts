import type { JsonObject } from '../../../shared/base/json.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { enqueue } from '../../platform/outbound/enqueue.ts';
import { transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { deduplicatedEventId, isUnrecorded } from '../sealing/event-deduplication.ts';
import { ledgerChain } from '../sealing/incident.ts';
import { newEvent } from '../sealing/new-event.ts';
import { readNewest } from './stored.ts';

interface Fork {
  /** Size of the newest checkpoint, which stays valid. */
  readonly size: number;
  readonly problem: string;
  /** Deduplication key: for each value, the fork is recorded only once. Default: checkpoint and problem. */
  readonly once?: string | undefined;
}

type ForkServices = Pick<LedgerServices, 'db' | 'ledger' | 'vault' | 'clock' | 'log'>;

/**
 * Reports that the ledger does not match its signatures. Logs it, records it in the ledger (once
 * for each checkpoint and problem), and throws `evidence.fork`.
 */
export async function refuseFork(
  services: ForkServices,
  tenantId: string,
  fork: Fork,
): Promise<never> {
  services.log.error({ tenantId, ...fork }, 'the ledger differs from its signed checkpoint');
  await recordFork(services, tenantId, fork).catch((err: unknown) => {
    services.log.error({ err, tenantId }, 'could not record the fork');
  });
  throw new GatewayError('evidence.fork');
}

/** Reports, only once, a fork that was found while sealing. Never rejects. */
export async function reportForkedEnd(
  services: ForkServices & Pick<LedgerServices, 'pool'>,
  tenantId: string,
): Promise<void> {
  try {
    const size = (await readNewest(services.pool, tenantId))?.size ?? 0;
    const problem = 'the kept end of the ledger is not the one that was signed';
    await recordFork(services, tenantId, { size, problem });
  } catch (err) {
    services.log.error({ err, tenantId }, 'could not record the fork yet');
  }
}

/** Records the incident and queues notifications. */
export async function recordFork(
  services: ForkServices,
  tenantId: string,
  { size, problem, once = `${size} ${problem}` }: Fork,
): Promise<void> {
  const { db, ledger, clock, vault } = services;
  const data: JsonObject = { checkpoint_size: size, problem };
  const eventId = deduplicatedEventId(vault, { tenantId, about: `fork ${once}` });
  const isNew = await transaction(db, async (tx) => {
    if (!(await isUnrecorded(tx, tenantId, eventId))) return false;
    const fields = { type: 'evidence.fork', chainId: ledgerChain, reasonCode: 'evidence.fork' };
    const event = newEvent({ ...fields, data }, clock);
    await ledger.record(tx, tenantId, { ...event, id: eventId });
    await enqueue(services, tx, tenantId, { type: 'evidence.fork', subject: eventId, data });
    return true;
  });
  if (isNew) await ledger.sealed(tenantId, eventId);
}
