import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { loadPublishedPolicies } from '../policies/load-published.ts';

/** The hash of the policies that are published now, as passports carry it. */
export async function stampedPolicyHash(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<string> {
  try {
    return (await loadPublishedPolicies(services, tenantId)).hash;
  } catch (cause) {
    throw new GatewayError('policy.load_failed', { cause });
  }
}
