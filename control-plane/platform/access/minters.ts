import type { Platform } from '../platform.ts';
import type { ApiKey } from '../store/generated/client.ts';
import type { Transaction } from '../store/transaction.ts';
import { parseDevKeys } from './dev-keys.ts';

/** Maker of a key that was created on the database itself. */
export const operator = 'operator';

type Deps = Pick<Platform, 'config'> & { readonly db: Pick<Transaction, 'apiKey'> };

/**
 * Principals whose keys led to a key, as recorded and signed when it was made. For an older key
 * only its maker's name is known, so all keys of that name are followed.
 */
export async function mintersOf(
  deps: Deps,
  key: Pick<ApiKey, 'tenantId' | 'mintedBy' | 'createdBy' | 'principal'>,
): Promise<readonly string[]> {
  if (key.mintedBy.length > 0 || key.createdBy === operator) return key.mintedBy;
  const found = new Set<string>();
  const open = [key.createdBy];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (found.has(name) || name === operator) continue;
    const keys = await keysOf(deps, key.tenantId, name);
    // A name without a key is a label, and cannot decide.
    if (keys.length === 0) continue;
    found.add(name);
    open.push(...keys.flatMap(({ mintedBy, createdBy }) => [...mintedBy, createdBy]));
  }
  found.delete(key.principal);
  return [...found];
}

async function keysOf({ db, config }: Deps, tenantId: string, principal: string) {
  const stored = await db.apiKey.findMany({
    where: { tenantId, principal },
    select: { mintedBy: true, createdBy: true },
  });
  const given = parseDevKeys(config).some(
    (key) => key.tenantId === tenantId && key.principal === principal,
  );
  return given ? [...stored, { mintedBy: [], createdBy: operator }] : stored;
}

/**
 * Records and signs the minters of keys that have none recorded, so that a database writer cannot
 * change the origin of a key.
 */
export async function recordMinters(
  services: Pick<Platform, 'db' | 'config' | 'guard'>,
): Promise<void> {
  const { db, guard, config } = services;
  const older = await db.apiKey.findMany({
    where: { mintedBy: { isEmpty: true }, createdBy: { not: operator } },
  });
  for (const key of older) {
    const mintedBy = [...(await mintersOf({ db, config }, key))];
    if (mintedBy.length === 0 || !guard.holds('api_key', key)) continue;
    const { id } = key;
    const mac = guard.sign('api_key', { ...key, mintedBy });
    // Only if the row is unchanged, because it may be revoked at the same time.
    await db.apiKey.updateMany({ where: { id, mac: key.mac }, data: { mintedBy, mac } });
  }
}
