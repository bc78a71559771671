import { SettingsError } from '../../shared/base/settings.ts';
import type { Services } from '../core/services.ts';
import type { OpenKeys } from '../platform/vault/open-keys.ts';

/**
 * Asks the KMS to wrap the stored master keys again with its current key version, without
 * decrypting them in this process. Returns the ids of the keys that changed.
 */
export async function renewWrapping(
  { kms }: Pick<OpenKeys, 'kms'>,
  { db }: Pick<Services, 'db'>,
): Promise<readonly string[]> {
  if (kms === undefined) {
    throw new SettingsError('SALLYPORT_KMS_KEY is not set, so there is nothing to wrap again.');
  }
  const rows = await db.vaultKey.findMany({ where: { wrapped: { not: null } } });
  const renewed: string[] = [];
  for (const { id, wrapped } of rows) {
    if (wrapped === null) continue;
    const fresh = await kms.rewrap(wrapped);
    // If another process was faster, its wrapped form contains the same key, so nothing is lost.
    const where = { id, wrapped };
    const { count } = await db.vaultKey.updateMany({ where, data: { wrapped: fresh } });
    if (count > 0) renewed.push(id);
  }
  return renewed;
}
