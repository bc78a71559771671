import type { BindingRecord } from '../../shared/contract/bindings.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { lockFor } from '../platform/store/transaction.ts';
import { bindingRecordOf } from './stored-binding.ts';

/** Removes a binding, leaves a signed tombstone, and answers with what the binding was. */
export async function deleteBinding(
  services: Services,
  { tenantId, principal }: Caller,
  name: string,
): Promise<BindingRecord> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'bindings');
    const where = { tenantId_name: { tenantId, name } };
    const row = await tx.binding.findUnique({ where });
    if (row === null) throw new GatewayError('binding.not_found');
    await tx.binding.delete({ where });
    const { id: eventId } = await notes.event({
      type: 'binding.removed',
      chainId: `bindings:${name}`,
      data: { by: principal, protocol: row.protocol, host: row.host },
    });
    const removedAt = new Date(services.clock.now());
    const removal = await tx.bindingRemoval.upsert({
      where,
      create: { tenantId, name, eventId, removedAt },
      update: { eventId, removedAt },
    });
    await notes.signed('binding_removal', removal);
    notes.sections('bindings');
    return row;
  });
  return bindingRecordOf(result);
}
