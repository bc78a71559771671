import type { LedgerServices } from '../../ledger/ledger-services.ts';
import { enqueue, installPlace } from '../../platform/outbound/enqueue.ts';
import { readWebhookSettings } from '../../platform/outbound/webhook-settings.ts';
import type { Transaction } from '../../platform/store/transaction.ts';
import { type Checkpoint, checkpointRecord } from './checkpoint-record.ts';

type PushServices = Pick<LedgerServices, 'vault' | 'clock' | 'log'>;

const channel = 'webhook';

/** Queues a new checkpoint for the tenant's webhook, if that keeps checkpoints. */
export async function pushCheckpoint(
  services: PushServices,
  tx: Transaction,
  tenantId: string,
  checkpoint: Checkpoint,
): Promise<void> {
  const install = await tx.install.findUnique({
    where: { tenantId_channel: { tenantId, channel } },
    select: { sealed: true, status: true },
  });
  if (install?.status !== 'active' || install.sealed === null) return;
  if (!keepsCheckpoints(services, tenantId, install.sealed)) return;
  await enqueue(services, tx, tenantId, {
    type: 'evidence.checkpoint',
    subject: `checkpoint:${checkpoint.size}`,
    data: checkpointRecord(checkpoint),
  });
}

/** A webhook that cannot be read must not keep a ledger from being signed. */
function keepsCheckpoints({ vault, log }: PushServices, tenantId: string, sealed: string): boolean {
  try {
    const text = vault.open(sealed, installPlace(tenantId, channel)).toString('utf8');
    return readWebhookSettings(text).checkpoints === true;
  } catch (err) {
    log.error({ err, tenantId }, 'the webhook cannot be read: a checkpoint is not sent to it');
    return false;
  }
}
