import type { KeyRecord } from '../../shared/contract/keys.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { keyDirectory } from '../platform/access/key-directory.ts';
import { keyRecordOf } from './list-keys.ts';

/** Revokes a key. This replica refuses it at once, other replicas within a second. */
export async function revokeKey(
  services: Services,
  caller: Caller,
  id: string,
): Promise<KeyRecord> {
  const { clock } = services;
  const { tenantId, principal } = caller;
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const found = await tx.apiKey.findFirst({ where: { tenantId, id } });
    if (found === null) throw new GatewayError('key.not_found');
    if (found.role === 'owner' && caller.role !== 'owner') {
      throw new GatewayError('key.role_exceeds_own', { message: 'Only owners revoke owner keys.' });
    }
    const { count } = await tx.apiKey.updateMany({
      where: { tenantId, id, revokedAt: null },
      data: { revokedAt: new Date(clock.now()) },
    });
    if (count > 0) {
      const { name, role, principal: stoodFor } = found;
      await notes.event({
        type: 'key.revoked',
        chainId: 'keys:api',
        data: { by: principal, key_id: id, name, role, principal: stoodFor },
      });
    }
    const revoked = await tx.apiKey.findUniqueOrThrow({ where: { id } });
    // A row that fails its integrity check is revoked and not signed again.
    if (count > 0 && notes.isSigned('api_key', found)) await notes.signed('api_key', revoked);
    return revoked;
  });
  keyDirectory(services).forget(result.hash);
  return keyRecordOf(result);
}
