import type { Clock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { Transaction } from '../store/transaction.ts';
import type { SealedPlace, Vault } from '../vault/vault.ts';

/** A notification for external channels. It must not contain internal data. */
export interface Notification {
  /** For example `approval.requested`. */
  readonly type: string;
  /** Subject, for example `approval:42`. */
  readonly subject: string;
  readonly data: JsonObject;
}

/** Channels that receive every notification. Approval rules can name additional channels. */
export const notified: readonly string[] = ['webhook'];

/**
 * Queues a notification once for each of the tenant's channels. Call it in the transaction of the
 * change that it reports, so that both commit together.
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

/** Returns the body of a notification. */
export function messageText(
  { type, data }: Pick<Notification, 'type' | 'data'>,
  now: Date,
): string {
  return JSON.stringify({ type, timestamp: now.toISOString(), data });
}

/** Returns the context to which the encryption binds the payload of a delivery. */
export function payloadPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'delivery', id, version: 1 };
}

/** Returns the place to which the encryption binds the settings of a tenant's channel. */
export function installPlace(tenantId: string, channel: string): SealedPlace {
  return { tenantId, purpose: 'install', id: channel, version: 1 };
}
