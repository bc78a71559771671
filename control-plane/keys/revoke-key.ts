import type { KeyRecord } from '../../shared/contract/keys.ts';
import { GatewayError } from '../../shared/errors.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { administrationEvent, awaitSealed } from './administration.ts';
import { keyDirectory } from './key-directory.ts';
import { keyRecordOf } from './key-record.ts';

/** Revokes a key. It is refused here as soon as this answers, on other replicas within a second. */
export async function revokeKey(
  services: Services,
  caller: Caller,
  id: string,
): Promise<KeyRecord> {
  const { clock, ledger } = services;
  const { tenantId, principal } = caller;
  const { row, eventId } = await services.db.$transaction(async (tx) => {
    const found = await tx.apiKey.findFirst({ where: { tenantId, id } });
    if (found === null) throw new GatewayError('key.not_found');
    if (found.role === 'owner' && caller.role !== 'owner') {
      throw new GatewayError('key.role_exceeds_own', { message: 'Only owners revoke owner keys.' });
    }
    const { count } = await tx.apiKey.updateMany({
      where: { tenantId, id, revokedAt: null },
      data: { revokedAt: new Date(clock.now()) },
    });
    if (count === 0) return { row: await tx.apiKey.findUniqueOrThrow({ where: { id } }) };
    const event = administrationEvent(services, {
      type: 'key.revoked',
      chainId: 'keys:api',
      by: principal,
      data: { key_id: id, name: found.name, role: found.role, principal: found.principal },
    });
    await ledger.record(tx, tenantId, event);
    return { row: await tx.apiKey.findUniqueOrThrow({ where: { id } }), eventId: event.id };
  });
  keyDirectory(services).forget(row.hash);
  if (eventId !== undefined) await awaitSealed(services, tenantId, eventId);
  return keyRecordOf(row);
}
