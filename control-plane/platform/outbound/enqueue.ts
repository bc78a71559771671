import type { Clock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { Transaction } from '../store/transaction.ts';
import type { SealedPlace, Vault } from '../vault/vault.ts';

/** Something that people outside want to hear of. Carries nothing that must stay inside. */
export interface Notification {
  /** For example `approval.requested`. */
  readonly type: string;
  /** What it is about, for example `approval:42`. */
  readonly subject: string;
  readonly data: JsonObject;
}

/** The channels that are told of everything; what an approval's rules name is told as well. */
export const notified: readonly string[] = ['webhook'];

/**
 * Puts a notification into the outbound queue, once for each channel that the tenant has: in the
 * transaction of the change it tells of, so that neither is without the other.
 */
export async function enqueue(
  { vault, clock }: { readonly vault: Vault; readonly clock: Clock },
  tx: Transaction,
  tenantId: string,
  { type, subject, data }: Notification,
): Promise<void> {
  const installs = await tx.install.findMany({
    where: { tenantId, channel: { in: [...notified] }, status: 'active' },
    select: { channel: true },
  });
  if (installs.length === 0) return;
  const now = new Date(clock.now());
  const body = messageText({ type, data }, now);
  await tx.delivery.createMany({
    data: installs.map(({ channel }) => {
      const id = newId('msg', now.getTime());
      const sealed = vault.seal(body, payloadPlace(tenantId, id));
      const times = { nextAttemptAt: now, createdAt: now };
      return { id, tenantId, channel, kind: type, subject, sealed, ...times };
    }),
  });
}

/** What is sent of a notification. */
export function messageText(
  { type, data }: Pick<Notification, 'type' | 'data'>,
  now: Date,
): string {
  return JSON.stringify({ type, timestamp: now.toISOString(), data });
}

/** Where the payload of a delivery is sealed. */
export function payloadPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'delivery', id, version: 1 };
}

/** Where the settings of a tenant's channel are sealed. */
export function installPlace(tenantId: string, channel: string): SealedPlace {
  return { tenantId, purpose: 'install', id: channel, version: 1 };
}
