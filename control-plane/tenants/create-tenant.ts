import { SettingsError } from '../../shared/base/settings.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { insertKey } from '../keys/create-key.ts';
import { parseDevKeys } from '../platform/access/dev-keys.ts';
import type { Config } from '../platform/config/config.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { transaction } from '../platform/store/transaction.ts';

/**
 * Creates the tenants that the development keys name, so that a first start needs no further step.
 */
export async function ensureDevelopmentTenants({
  db,
  config,
  guard,
}: Pick<Services, 'db' | 'config' | 'guard'>): Promise<void> {
  for (const id of developmentTenants(config)) {
    await transaction(db, async (tx) => {
      await signedRows({ db: tx, guard }, 'tenant').createOnce({ id, name: id });
    });
  }
}

function developmentTenants(config: Config): ReadonlySet<string> {
  const keys = parseDevKeys(config);
  return new Set(keys.map(({ tenantId }) => tenantId));
}

/**
 * Creates a tenant and its first owner key, which has no creator. Only this call returns the key.
 */
export async function createTenant(
  services: Services,
  name: string,
): Promise<{ readonly tenantId: string; readonly key: string }> {
  const tenantId = tenantIdOf(name);
  if ((await claimedRows(services.db, 'tenant').count({ id: tenantId })) > 0) {
    throw new SettingsError(
      `Tenant ${tenantId} exists; its owner creates further keys with POST /v1/keys.`,
    );
  }
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    await notes.rows('tenant').create({ id: tenantId, name });
    await notes.event({ type: 'tenant.created', chainId: 'tenant:settings', data: { name } });
    return insertKey(services, notes, {
      tenantId,
      by: undefined,
      wantedKey: {
        name: 'first owner',
        role: 'owner',
        scope: 'tenant',
        principal: 'owner',
        agentId: undefined,
        expiresAt: undefined,
      },
    });
  });
  return { tenantId, key: result.key };
}

const tenantForm = /^[0-9a-z][0-9a-z_-]{0,62}$/;

/**
 * Returns a tenant's id: its name in lower case. Throws for a name from which no valid id results.
 */
function tenantIdOf(name: string): string {
  const id = name.trim().toLowerCase().replaceAll(/\s+/g, '-');
  if (!tenantForm.test(id))
    throw new SettingsError('A tenant name has 1 to 63 letters, digits, _ or -.');
  return id;
}
