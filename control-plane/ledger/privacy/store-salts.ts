import type { JsonObject } from '../../../shared/base/json.ts';
import { eventKey } from '../../../shared/ledger/columns.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import type { SealedPlace } from '../../platform/vault/vault.ts';
import type { LedgerServices } from '../ledger-services.ts';

/** An event that holds salted digests of arguments, and what is kept apart from it. */
export interface SaltedEvent {
  readonly event: EvidenceEvent;
  /** Base64. */
  readonly salt: string;
  /** Redacted, where the tenant keeps them. */
  readonly args?: JsonObject | undefined;
}

/** Where the salt of an event is sealed, and where its arguments are. */
export function saltPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'evidence_salt', id, version: 1 };
}

export function keptArgumentsPlace(tenantId: string, id: string): SealedPlace {
  return { tenantId, purpose: 'evidence_arguments', id, version: 1 };
}

/**
 * Keeps what belongs to these events and must not be in them, encrypted. Again changes nothing: an
 * event has one salt, and one that was erased stays erased, whoever sends the event again.
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
  // Through the pool: this runs with every decision.
  await pool.query(
    `insert into evidence_salt (tenant_id, event_id, user_id, sealed, arguments)
     select $1, kept.* from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as kept
     on conflict do nothing`,
    [tenantId, ids, salted.map(({ event }) => userOf(event)), salts, args],
  );
}

/** For whom the call was made: a sidecar's agent may act for the user of a passport. */
function userOf({ user_id: userId, data }: EvidenceEvent): string | null {
  return typeof data.acted_for === 'string' ? data.acted_for : (userId ?? null);
}
