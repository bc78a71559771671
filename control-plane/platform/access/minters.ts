import type { Platform } from '../platform.ts';
import { claimedRows } from '../signed-store/claimed-rows.ts';
import { signedRows } from '../signed-store/signed-rows.ts';
import { claimsOf } from '../signed-store/verified.ts';
import type { ApiKey } from '../store/generated/client.ts';
import { parseDevKeys } from './dev-keys.ts';

/** Recorded as the creator if a key was created directly on the database. */
export const operator = 'operator';

type Deps = Pick<Platform, 'config' | 'db'>;

/**
 * Returns the principals whose keys created a key, directly or through other keys, as recorded and
 * signed when the key was created. An older key has only its creator's name, so the origin of all
 * keys of that name is followed.
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
    // A name without a key is only a label: it cannot decide approvals.
    if (keys.length === 0) continue;
    found.add(name);
    open.push(...keys.flatMap(({ mintedBy, createdBy }) => [...mintedBy, createdBy]));
  }
  found.delete(key.principal);
  return [...found];
}

/**
 * Reads the keys of a principal without verifying the rows: a forged row can only add a name, which
 * excludes one more decider.
 */
async function keysOf(deps: Deps, tenantId: string, principal: string) {
  const stored = await claimedRows(deps.db, 'api_key').findClaims(['mintedBy', 'createdBy'], {
    where: { tenantId, principal },
  });
  const given = parseDevKeys(deps.config).some(
    (key) => key.tenantId === tenantId && key.principal === principal,
  );
  return given ? [...stored, { mintedBy: [], createdBy: operator }] : stored;
}

/**
 * Records and signs the minters of keys for which none are recorded, so that a database writer
 * cannot change the origin of a key.
 */
export async function recordMinters(
  services: Pick<Platform, 'db' | 'config' | 'guard'>,
): Promise<void> {
  const keys = signedRows(services, 'api_key');
  const older = await keys.findUnverified({
    where: { mintedBy: { isEmpty: true }, createdBy: { not: operator } },
  });
  for (const row of older) {
    const mintedBy = [...(await mintersOf(services, claimsOf(row)))];
    if (mintedBy.length === 0) continue;
    const [key] = keys.valid([row]);
    // Updates the row only if it is unchanged, because the key may be revoked at the same time.
    if (key !== undefined) await keys.updateIf(key, { mac: key.mac }, { mintedBy });
  }
}
