import type { LedgerServices } from '../../ledger/ledger-services.ts';
import { transaction } from '../../platform/store/transaction.ts';
import type { Checkpoint } from './checkpoint-record.ts';
import { pushCheckpoint } from './push-checkpoint.ts';

interface NewCheckpoint {
  readonly checkpoint: Checkpoint;
  /** The size of the checkpoint that it was held against; undefined: there was none. */
  readonly after: number | undefined;
}

/**
 * Keeps a checkpoint and queues it for the tenant's webhook, unless a newer one than it was held
 * against is there: false then, and nothing happened.
 */
export async function insertCheckpoint(
  services: Pick<LedgerServices, 'db' | 'vault' | 'clock' | 'log'>,
  tenantId: string,
  { checkpoint, after }: NewCheckpoint,
): Promise<boolean> {
  const { size, note, createdAt } = checkpoint;
  return transaction(services.db, async (tx) => {
    const newest = await tx.evidenceCheckpoint.findFirst({
      where: { tenantId },
      orderBy: { size: 'desc' },
      select: { size: true },
    });
    if ((newest === null ? undefined : Number(newest.size)) !== after) return false;
    const data = [{ tenantId, size, note, createdAt }];
    const { count } = await tx.evidenceCheckpoint.createMany({ data, skipDuplicates: true });
    if (count === 0) return false;
    await pushCheckpoint(services, tx, tenantId, checkpoint);
    return true;
  });
}
