import type { JsonObject } from '../../../shared/base/json.ts';
import { eventKey } from '../../../shared/ledger/columns.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import type { SealedPlace } from '../../platform/vault/vault.ts';
import type { LedgerServices } from '../ledger-services.ts';

/**
 * An event that contains salted digests of arguments, and the data that is stored separately from
 * it.
 */
export interface SaltedEvent {
  readonly event: EvidenceEvent;
  /** Salt of the digests, base64. */
  readonly salt: string;
  /** Redacted arguments, if the tenant stores them. */
  readonly args?: JsonObject | undefined;
}

/** Returns the place to which the encryption binds the salt of an event. */
export function saltPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'evidence_salt', id, version: 1 };
}

export function keptArgumentsPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'evidence_arguments', id, version: 1 };
}

/**
 * Encrypts and stores the salts and arguments of these events. Storing them again changes nothing,
 * so an erased salt stays erased if the event arrives again.
 */
export async function storeSalts(
  { pool, vault }: Pick<LedgerServices, 'pool' | 'vault'>,
  tenantId: string,
  salted: readonly SaltedEvent[],
): Promise<void> {
  if (salted.length === 0) return;
  const ids = salted.map(({ event }) => eventKey(event));
  const salts = salted.map(({ event, salt }) =>
    vault.seal(salt, saltPlace(tenantId, eventKey(event))),
  );
  const args = salted.map(({ event, args: kept }) =>
    kept === undefined
      ? null
      : vault.seal(JSON.stringify(kept), keptArgumentsPlace(tenantId, eventKey(event))),
  );
  // Uses the pool directly, because this runs for every decision.
  await pool.query(
    `insert into evidence_salt (tenant_id, event_id, user_id, sealed, arguments)
     select $1, kept.* from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as kept
     on conflict do nothing`,
    [tenantId, ids, salted.map(({ event }) => userOf(event)), salts, args],
  );
}

/**
 * Returns the user that the call acted for: the user in `acted_for`, such as the user of a
 * passport, or else the user of the event.
 */
function userOf({ user_id: userId, data }: EvidenceEvent): string | null {
  return typeof data.acted_for === 'string' ? data.acted_for : (userId ?? null);
}
