import type { BindingRecord } from '../../shared/contract/bindings.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { bindingForgery, bindingOf, bindingRecordOf } from './stored-binding.ts';

/** The tenant's bindings, by name. */
export async function listBindings(
  { db, vault, guard }: Pick<Services, 'db' | 'vault' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly BindingRecord[]> {
  const rows = await db.binding.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
  const ours = rows.filter((row) => {
    if (bindingOf(row, vault) !== undefined) return true;
    guard.forged(bindingForgery(row));
    return false;
  });
  return ours.map(bindingRecordOf);
}
