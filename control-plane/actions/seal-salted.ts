import type { EvidenceEvent } from '../../shared/evidence/event.ts';
import type { Services } from '../services.ts';

/**
 * Seals an event that holds a salted digest; the salt is kept apart from it, encrypted. Again changes
 * nothing: an event has one salt.
 */
export async function sealSalted(
  { pool, vault, ledger }: Pick<Services, 'pool' | 'vault' | 'ledger'>,
  tenantId: string,
  { event, salt }: { readonly event: EvidenceEvent; readonly salt: string },
): Promise<void> {
  const place = { tenantId, purpose: 'evidence_salt', id: event.id, version: 1 };
  // Through the pool: this runs with every decision.
  await pool.query(
    'insert into evidence_salt (tenant_id, event_id, sealed) values ($1, $2, $3) on conflict do nothing',
    [tenantId, event.id, vault.seal(salt, place)],
  );
  await ledger.seal(tenantId, event);
}
