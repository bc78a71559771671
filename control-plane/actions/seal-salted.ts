import type { Services } from '../core/services.ts';
import { type SaltedEvent, storeSalts } from '../ledger/privacy/store-salts.ts';

/** Seals an event that holds salted digests, once what is kept apart from it is kept. */
export async function sealSalted(
  services: Pick<Services, 'pool' | 'vault' | 'ledger'>,
  tenantId: string,
  salted: SaltedEvent,
): Promise<void> {
  await storeSalts(services, tenantId, [salted]);
  await services.ledger.seal(tenantId, salted.event);
}
