import type { BindingRecord } from '../../shared/contract/bindings.ts';
import { GatewayError } from '../../shared/errors.ts';
import { commitChange, lockFor } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { bindingRecordOf } from './stored-binding.ts';

/** Removes a binding and answers with what it was. */
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
    await notes.event({
      type: 'binding.removed',
      chainId: `bindings:${name}`,
      data: { by: principal, protocol: row.protocol, host: row.host },
    });
    notes.sections('bindings');
    return row;
  });
  return bindingRecordOf(result);
}
