import type { PolicyLifecycle } from '../../shared/contract/policies/policies.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Policy } from '../platform/store/generated/client.ts';

export async function listPolicies(
  services: Services,
  { tenantId }: Caller,
  { lifecycle }: { readonly lifecycle?: PolicyLifecycle | undefined },
): Promise<readonly Verified<Policy>[]> {
  return signedRows(services, 'policy').findValid({
    where: { tenantId, ...(lifecycle === undefined ? {} : { lifecycle }) },
    orderBy: { id: 'asc' },
  });
}

export async function getPolicy(
  services: Services,
  { tenantId }: Caller,
  id: number,
): Promise<Verified<Policy>> {
  const policies = signedRows(services, 'policy');
  const row = await policies.findUnique({ where: { tenantId_id: { tenantId, id } } });
  if (row === null) throw new GatewayError('policy.not_found');
  return row;
}
