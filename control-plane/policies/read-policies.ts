import type { PolicyLifecycle } from '../../shared/contract/policies/policies.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Policy } from '../platform/store/generated/client.ts';

export async function listPolicies(
  { db, guard }: Services,
  { tenantId }: Caller,
  { lifecycle }: { readonly lifecycle?: PolicyLifecycle | undefined },
): Promise<readonly Policy[]> {
  const rows = await db.policy.findMany({
    where: { tenantId, ...(lifecycle === undefined ? {} : { lifecycle }) },
    orderBy: { id: 'asc' },
  });
  return rows.filter((row) => guard.holds('policy', row));
}

export async function getPolicy(
  { db, guard }: Services,
  { tenantId }: Caller,
  id: number,
): Promise<Policy> {
  const row = await db.policy.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (row === null) throw new GatewayError('policy.not_found');
  guard.assert('policy', row);
  return row;
}
