import {
  type ArgumentsSetting,
  digestOnly,
} from '../../../shared/ledger/privacy/arguments-setting.ts';
import type { Transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';

/** How long a setting that was read is believed: it would otherwise be read with every decision. */
const believedMs = 1_000;

interface Known {
  readonly setting: ArgumentsSetting;
  readonly readAt: number;
}

// Kept with the database client, so that two programs in one process never share a setting.
const known = new WeakMap<LedgerServices['db'], Map<string, Known>>();

/** What a tenant keeps of arguments; at most a second old. Where it cannot be read, the least. */
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
    log.warn({ err, tenantId }, 'what is kept of arguments could not be read: their digest is');
    return digestOnly;
  }
}

/** After a change: the next decision here reads anew. */
export function forgetSetting(db: LedgerServices['db'], tenantId: string): void {
  known.get(db)?.delete(tenantId);
}

/** The setting where it is more than digest and shape. */
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
