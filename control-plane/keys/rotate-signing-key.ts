import type { z } from 'zod';
import type { rotateSigningKey as rotateOperation } from '../../shared/contract/keys.ts';
import type { Caller } from '../http/route.ts';
import type { KeyPurpose, Services } from '../services.ts';
import { administrationEvent, awaitSealed, lockFor } from './administration.ts';
import { algorithmOf, insertActiveKey } from './signing-keys.ts';

type Rotated = z.input<NonNullable<(typeof rotateOperation)['success']['schema']>>;
type RotatablePurpose = Rotated['purpose'];

/** Retires the active key of a purpose and makes a new one; what the old one signed stays valid. */
export async function rotateSigningKey(
  services: Services,
  { tenantId, principal }: Caller,
  purpose: RotatablePurpose,
): Promise<Rotated> {
  const { db, clock, ledger, publisher, signingKeys } = services;
  const alg = algorithmOf(purpose);
  // A tenant that never signed anything has a first key to retire after this.
  await signingKeys.active(tenantId, purpose, alg);
  const { eventId, rotated } = await db.$transaction(async (tx) => {
    await lockFor(tx, `signing_key ${tenantId} ${purpose}`);
    const rotatedAt = new Date(clock.now());
    const old = await tx.signingKey.findFirstOrThrow({
      where: { tenantId, purpose, state: 'active' },
    });
    await tx.signingKey.update({
      where: { tenantId_kid: { tenantId, kid: old.kid } },
      data: { state: 'retired', retiredAt: rotatedAt },
    });
    const made = await insertActiveKey(tx, services, { tenantId, purpose, alg });
    if (made === undefined) throw new Error(`two active ${purpose} keys`);
    const event = administrationEvent(services, {
      type: 'signing_key.rotated',
      chainId: `signing-keys:${purpose}`,
      by: principal,
      data: { purpose, alg, active_key_id: made.kid, retired_key_id: old.kid },
    });
    await ledger.record(tx, tenantId, event);
    if (purpose === 'passport') await publisher.changed(tx, tenantId, 'keys');
    const rotated = {
      purpose,
      alg,
      active_key_id: made.kid,
      retired_key_id: old.kid,
      rotated_at: rotatedAt.toISOString(),
    };
    return { eventId: event.id, rotated };
  });
  signingKeys.rotated?.(tenantId, purpose satisfies KeyPurpose);
  if (purpose === 'passport') publisher.nudge();
  await awaitSealed(services, tenantId, eventId);
  return rotated;
}
