import type { BindingRecord } from '../../shared/contract/bindings.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { bindingRecordOf } from './stored-binding.ts';

/** The tenant's bindings, by name. */
export async function listBindings(
  { db }: Pick<Services, 'db'>,
  { tenantId }: Caller,
): Promise<readonly BindingRecord[]> {
  const rows = await db.binding.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
  return rows.map(bindingRecordOf);
}
