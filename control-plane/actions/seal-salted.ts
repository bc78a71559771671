import type { Services } from '../core/services.ts';
import { type SaltedEvent, storeSalts } from '../ledger/privacy/store-salts.ts';

/** Stores the salt of an event, then seals the event. */
export async function sealSalted(
  services: Pick<Services, 'pool' | 'vault' | 'ledger'>,
  tenantId: string,
  salted: SaltedEvent,
): Promise<void> {
  await storeSalts(services, tenantId, [salted]);
  await services.ledger.seal(tenantId, salted.event);
}
