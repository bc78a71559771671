import { SettingsError } from '../../shared/base/settings.ts';
import { commitChange } from '../core/commit-change.ts';
import { isTier, tiers } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import { lockFor } from '../platform/store/transaction.ts';

/**
 * Changes a tenant's plan. Existing objects stay, even if they exceed the new limits. Only the
 * operator may change a plan, so no API operation calls this. Throws `SettingsError` for an unknown
 * tenant or plan.
 */
export async function setPlan(services: Services, tenantId: string, plan: string): Promise<void> {
  if (!isTier(plan)) {
    throw new SettingsError(`There is no plan ${plan}; use one of ${tiers.join(', ')}.`);
  }
  await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'tenant settings');
    const tenants = notes.rows('tenant');
    const known = await tenants.findUnique({ where: { id: tenantId } });
    if (known === null) throw new SettingsError(`There is no tenant ${tenantId}.`);
    await tenants.update(known, { plan });
    await notes.event({
      type: 'tenant.plan_set',
      chainId: 'tenant:settings',
      data: { by: 'operator', before: known.plan, plan },
    });
  });
}
