import type { CredentialRecord } from '../../shared/contract/credentials.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Credential } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { affectedSidecars } from './affected-sidecars.ts';
import { credentialRecordOf } from './stored-credential.ts';

/** Removes a credential with its secret and returns its metadata. */
export async function removeCredential(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<CredentialRecord> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const where = { tenantId, id };
    const found = await tx.credential.findFirst({ where, select: { name: true } });
    if (found === null) throw new GatewayError('credential.not_found');
    const { name } = found;
    await lockFor(tx, tenantId, `credential ${name}`);
    // Reads the row again under the lock, because another caller may have removed the credential or
    // stored a new version.
    const row = await tx.credential.findFirst({ where });
    if (row === null) throw new GatewayError('credential.not_found');
    await tx.credential.delete({ where: { id } });
    await notes.event(removalOf(row, principal));
    const sidecars = await affectedSidecars(tx, tenantId, row.tools);
    notes.sections('tenant', ...sidecars.map(sidecarSection));
    return row;
  });
  return credentialRecordOf(result);
}

/** Returns the event for a removed credential. The credential's id is never used again. */
export function removalOf(
  { id, name, version }: Pick<Credential, 'id' | 'name' | 'version'>,
  principal: string,
) {
  return {
    type: 'credential.removed',
    chainId: `credentials:${name}`,
    data: { by: principal, credential_id: id, name, version },
  };
}
