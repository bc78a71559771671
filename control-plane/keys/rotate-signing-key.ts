import type { z } from 'zod';
import type { rotateSigningKey as rotateOperation } from '../../shared/contract/keys.ts';
import { type SectionName, sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { algorithmOf, insertActiveKey } from '../platform/signing-keys/signing-keys.ts';
import { lockFor } from '../platform/store/transaction.ts';

type Rotated = z.input<NonNullable<(typeof rotateOperation)['success']['schema']>>;
type RotatablePurpose = Rotated['purpose'];

/**
 * Retires the active key of a purpose and creates a new one. Signatures of the old key stay valid.
 */
export async function rotateSigningKey(
  services: Services,
  { tenantId, principal }: Caller,
  purpose: RotatablePurpose,
): Promise<Rotated> {
  const { clock, signingKeys } = services;
  const alg = algorithmOf(purpose);
  // Creates a key if the tenant has none yet, so that there is a key to retire.
  await signingKeys.active(tenantId, purpose, alg);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `signing_key ${purpose}`);
    const retiredAt = new Date(clock.now());
    const active = { tenantId, purpose, state: 'active' };
    const keys = notes.rows('signing_key');
    const old = await keys.findFirst({ where: active });
    if (old === null) throw new Error(`there is no active ${purpose} key`);
    await keys.update(old, { state: 'retired', retiredAt });
    const made = await insertActiveKey(keys, services, { tenantId, purpose, alg });
    if (made === undefined) throw new Error(`there are two active ${purpose} keys`);
    const ids = { purpose, alg, active_key_id: made.kid, retired_key_id: old.kid };
    await notes.event({
      type: 'signing_key.rotated',
      chainId: `signing-keys:${purpose}`,
      data: { by: principal, ...ids },
    });
    notes.sections(...(await sectionsSignedBy(notes, tenantId, purpose)));
    return { ...ids, rotated_at: retiredAt.toISOString() };
  });
  signingKeys.rotated?.(tenantId, purpose);
  return result;
}

/**
 * Returns the sections to publish again: only `keys` if the passport key changed, all sections if
 * the sync key changed.
 */
async function sectionsSignedBy(
  notes: ChangeNotes,
  tenantId: string,
  purpose: RotatablePurpose,
): Promise<readonly SectionName[]> {
  if (purpose === 'passport') return ['keys'];
  if (purpose !== 'sync') return [];
  const where = { tenantId, revokedAt: null };
  const sidecars = await notes.rows('sidecar').findClaims(['id'], { where });
  return [...tenantSections, ...sidecars.map(({ id }) => sidecarSection(id))];
}
