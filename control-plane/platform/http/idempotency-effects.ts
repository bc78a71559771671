import { sha256 } from '../../../shared/crypto/hash.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { Platform } from '../platform.ts';
import type { Vault } from '../vault/vault.ts';

/** How long a response is stored for an idempotency key. */
export const retentionMs = 24 * 60 * 60 * 1000;

/** An idempotency key and the scope in which it is unique. */
export interface RowKey {
  readonly tenantId: string;
  readonly keyId: string;
  readonly agentId: string;
  readonly operation: string;
  readonly key: string;
}

/** Ids of the result events of effects that are in progress in this process. */
const inProgress = new Set<string>();

/**
 * Returns the id of the event that records the effect of a request. The id is derived from the
 * idempotency key, so the ledger shows that the effect happened even if the key's row was deleted.
 * The id also depends on a period of `retentionMs`, because the key can later be used for another
 * request.
 */
export function resultIdOf(
  vault: Pick<Vault, 'mac'>,
  { tenantId, keyId, agentId, operation, key }: RowKey,
  takenAtMs: number,
): string {
  const period = Math.floor(takenAtMs / retentionMs);
  const named = canonicalJson([tenantId, keyId, agentId, operation, key, period]);
  return `ev_${vault.mac('idempotency_result', named).slice(0, 32)}`;
}

/** Runs a request's effect. When the effect ends, it is no longer marked as in progress. */
export async function trackEffect<Result>(
  resultId: string,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } finally {
    inProgress.delete(resultId);
  }
}

export function markInProgress(resultId: string): void {
  inProgress.add(resultId);
}

/**
 * Throws if the effect of this key is in progress. Also throws if the effect is recorded although
 * the key's row does not exist.
 */
export async function assertNotPerformed(
  { db, vault, guard }: Pick<Platform, 'db' | 'vault' | 'guard'>,
  rowKey: RowKey,
  nowMs: number,
): Promise<void> {
  const { tenantId, operation, key } = rowKey;
  const ids = [nowMs, nowMs - retentionMs].map((atMs) => resultIdOf(vault, rowKey, atMs));
  const isInProgress = ids.some((id) => inProgress.has(id));
  if (!isInProgress) {
    const since = new Date(nowMs - retentionMs);
    const where = { tenantId, eventId: { in: ids } };
    const sealed = await db.evidenceRow.count({ where: { ...where, occurredAt: { gt: since } } });
    const waiting = await db.eventOutbox.count({ where });
    if (sealed + waiting === 0) return;
  }
  throw guard.forged({
    tenantId,
    table: 'idempotency',
    found: 'missing',
    key: `${operation} ${sha256(key)}`,
  });
}
