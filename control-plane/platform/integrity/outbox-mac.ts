import type { Vault } from '../vault/vault.ts';

export type OutboxVault = Pick<Vault, 'mac'>;

/**
 * Computes the keyed hash of an outbox row. Without it, a database writer could make the control
 * plane seal any event, for example one that explains a deleted row.
 */
export function outboxMac(
  vault: OutboxVault,
  { tenantId, eventId, event }: { tenantId: string; eventId: string; event: string },
): string {
  return vault.mac('event_outbox', JSON.stringify([tenantId, eventId, event]));
}
