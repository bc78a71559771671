import type { KeyRecord } from '../../shared/contract/keys.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { keyDirectory } from '../platform/access/key-directory.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import { keyRecordOf } from './list-keys.ts';

/** Revokes a key. This replica rejects the key at once; other replicas reject it within a second. */
export async function revokeKey(
  services: Services,
  caller: Caller,
  id: string,
): Promise<KeyRecord> {
  const { clock } = services;
  const { tenantId, principal } = caller;
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const keys = notes.rows('api_key');
    // Locks the row, because `recordMinters` may change it at the same time.
    await keys.lock({ tenantId, id });
    const [row] = await keys.findUnverified({ where: { tenantId, id } });
    if (row === undefined) throw new GatewayError('key.not_found');
    // A forged row can also be revoked: its claims only decide who may revoke it.
    const found = claimsOf(row);
    if (found.role === 'owner' && caller.role !== 'owner') {
      throw new GatewayError('key.role_exceeds_own', { message: 'Only owners revoke owner keys.' });
    }
    const changes = { revokedAt: new Date(clock.now()) };
    const revoked = await keys.retire(row, { revokedAt: null }, { changes, forged: 'keep' });
    if (revoked === undefined) {
      const [now = row] = await keys.findUnverified({ where: { tenantId, id } });
      return claimsOf(now);
    }
    const { name, role, principal: stoodFor } = found;
    await notes.event({
      type: 'key.revoked',
      chainId: 'keys:api',
      data: { by: principal, key_id: id, name, role, principal: stoodFor },
    });
    return revoked;
  });
  keyDirectory(services).forget(result.hash);
  return keyRecordOf(result);
}
