import {
  type EvidenceJwk,
  evidenceKeyPurposes,
} from '../../../shared/contract/evidence/evidence-export.ts';
import type { Services } from '../../core/services.ts';

type Purpose = (typeof evidenceKeyPurposes)[number];

/**
 * The keys that a tenant's evidence is verified with. Only those whose private half the vault
 * opens for this tenant: whoever can write to the database cannot have a key of theirs published.
 */
export async function evidenceJwks(
  services: Pick<Services, 'db' | 'signingKeys'>,
  tenantId: string,
): Promise<{ readonly keys: EvidenceJwk[] }> {
  const keys: EvidenceJwk[] = [];
  // One after another: embedded mode has a single connection.
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
  // Made now if there is none: a key is to be known before anything is signed with it.
  await signingKeys.active(tenantId, purpose);
  const own = await signingKeys.history(tenantId, purpose);
  const rows = await db.signingKey.findMany({ where: { tenantId, purpose } });
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
