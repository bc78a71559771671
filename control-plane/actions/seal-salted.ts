import { keepApart, type SaltedEvent } from '../evidence/privacy/keep-apart.ts';
import type { Services } from '../services.ts';

/** Seals an event that holds salted digests, once what is kept apart from it is kept. */
export async function sealSalted(
  services: Pick<Services, 'pool' | 'vault' | 'ledger'>,
  tenantId: string,
  salted: SaltedEvent,
): Promise<void> {
  await keepApart(services, tenantId, [salted]);
  await services.ledger.seal(tenantId, salted.event);
}
