import {
  type ArgumentsSetting,
  digestOnly,
} from '../../../shared/ledger/privacy/arguments-setting.ts';
import type { Transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';

/** How long a setting is cached, because not every decision should read it from the database. */
const believedMs = 1_000;

interface Known {
  readonly setting: ArgumentsSetting;
  readonly readAt: number;
}

// Keyed by the database client, so that two programs in one process do not share settings.
const known = new WeakMap<LedgerServices['db'], Map<string, Known>>();

/**
 * Returns the form in which a tenant stores arguments, from a cache of at most one second. If the
 * setting cannot be read, returns the least revealing form.
 */
export async function argumentsSetting(
  { db, clock, log }: Pick<LedgerServices, 'db' | 'clock' | 'log'>,
  tenantId: string,
): Promise<ArgumentsSetting> {
  const settings = known.get(db) ?? new Map<string, Known>();
  known.set(db, settings);
  const before = settings.get(tenantId);
  const now = clock.monotonic();
  if (before !== undefined && now - before.readAt < believedMs) return before.setting;
  try {
    const setting = await readSetting(db, tenantId);
    settings.set(tenantId, { setting, readAt: now });
    return setting;
  } catch (err) {
    log.warn({ err, tenantId }, 'could not read the arguments setting; only the digest is stored');
    return digestOnly;
  }
}

/**
 * Removes a setting from the cache. Call it after a change, so that the next decision reads the new
 * setting.
 */
export function forgetSetting(db: LedgerServices['db'], tenantId: string): void {
  known.get(db)?.delete(tenantId);
}

/** Returns the tenant's setting, or undefined if the tenant stores only digest and shape. */
export async function keptArguments(
  tx: Pick<Transaction, 'evidenceSetting'>,
  tenantId: string,
): Promise<ArgumentsSetting | undefined> {
  const setting = await readSetting(tx, tenantId);
  return setting.keep === 'digest' ? undefined : setting;
}

export async function readSetting(
  tx: Pick<Transaction, 'evidenceSetting'>,
  tenantId: string,
): Promise<ArgumentsSetting> {
  const row = await tx.evidenceSetting.findUnique({ where: { tenantId } });
  if (row === null) return digestOnly;
  const { arguments: keep, sensitiveFields } = row;
  return { keep: keep === 'redacted' ? 'redacted' : 'digest', sensitiveFields };
}
