import {
  type EvidenceJwk,
  evidenceKeyPurposes,
} from '../../../shared/contract/evidence/evidence-export.ts';
import type { Services } from '../../core/services.ts';
import { claimedRows } from '../../platform/signed-store/claimed-rows.ts';

type Purpose = (typeof evidenceKeyPurposes)[number];

/**
 * Returns the keys that verify a tenant's evidence. Includes only keys whose private half the vault
 * can decrypt for this tenant, so that a database writer cannot publish a key of their own.
 */
export async function evidenceJwks(
  services: Pick<Services, 'db' | 'signingKeys'>,
  tenantId: string,
): Promise<{ readonly keys: EvidenceJwk[] }> {
  const keys: EvidenceJwk[] = [];
  // Reads the purposes one after another, because embedded mode has a single connection.
  for (const purpose of evidenceKeyPurposes) {
    keys.push(...(await keysOf(services, tenantId, purpose)));
  }
  return { keys };
}

async function keysOf(
  { db, signingKeys }: Pick<Services, 'db' | 'signingKeys'>,
  tenantId: string,
  purpose: Purpose,
): Promise<readonly EvidenceJwk[]> {
  // Creates a missing key, so that clients know it before anything is signed with it.
  await signingKeys.active(tenantId, purpose);
  const own = await signingKeys.history(tenantId, purpose);
  // `history` has verified the keys; this query adds their times and states.
  const columns = ['kid', 'state', 'createdAt', 'retiredAt'] as const;
  const query = { where: { tenantId, purpose } };
  const rows = await claimedRows(db, 'signing_key').findClaims(columns, query);
  const published = own.toReversed().flatMap(({ kid, publicJwk }) => {
    const row = rows.find((one) => one.kid === kid);
    if (row === undefined) return [];
    const { state, createdAt, retiredAt } = row;
    const jwk: EvidenceJwk = {
      ...publicJwk,
      purpose,
      status: state === 'active' ? 'active' : 'retired',
      created_at: createdAt.toISOString(),
      ...(retiredAt === null ? {} : { retired_at: retiredAt.toISOString() }),
    };
    return [jwk];
  });
  return published.sort((one, other) => Number(isRetired(one)) - Number(isRetired(other)));
}

function isRetired({ status }: EvidenceJwk): boolean {
  return status === 'retired';
}
