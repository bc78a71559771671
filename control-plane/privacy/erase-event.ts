import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { erased, privacyChain } from '../ledger/privacy/erased.ts';
import { findEvent } from '../ledger/reading/find-event.ts';
import type { Caller } from '../platform/access/caller.ts';

/**
 * Erases the salt and the arguments of one event. Erasing them again returns the time of the first
 * erasure.
 */
export async function eraseEventArguments(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<{ readonly event_id: string; readonly erased_at: string }> {
  const { key } = await findEvent(services.pool, tenantId, id);
  const where = { tenantId_eventId: { tenantId, eventId: key } };
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const row = await tx.evidenceSalt.findUnique({ where });
    if (row === null) throw new GatewayError('evidence.arguments_not_kept');
    const { count } = await tx.evidenceSalt.updateMany({
      where: { tenantId, eventId: key, erasedAt: null },
      data: erased(now),
    });
    if (count === 0) return (await tx.evidenceSalt.findUniqueOrThrow({ where })).erasedAt ?? now;
    await notes.event({
      type: 'privacy.erased',
      chainId: privacyChain,
      data: { by: principal, event: key, events: 1 },
    });
    return now;
  });
  return { event_id: id, erased_at: result.toISOString() };
}
