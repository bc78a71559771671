import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ChangeNotes } from './commit-change.ts';

export const tiers = ['free', 'team', 'enterprise'] as const;
type Tier = (typeof tiers)[number];

export function isTier(name: string): name is Tier {
  return tiers.some((tier) => tier === name);
}

/** Maximum of each feature by plan (design 12). */
const caps = {
  agents: { free: 5, team: 100, enterprise: Number.POSITIVE_INFINITY },
  policies: { free: 10, team: 500, enterprise: Number.POSITIVE_INFINITY },
  integrations: {
    free: 0,
    team: Number.POSITIVE_INFINITY,
    enterprise: Number.POSITIVE_INFINITY,
  },
} as const satisfies Record<string, Record<Tier, number>>;

type CappedFeature = keyof typeof caps;

/**
 * Throws if one more item of a feature exceeds the tenant's plan. Call it with the current number
 * of items, under a lock on their rows. An unknown plan counts as the smallest.
 */
export async function assertWithinPlan(
  notes: ChangeNotes,
  tenantId: string,
  { feature, present }: { readonly feature: CappedFeature; readonly present: number },
): Promise<void> {
  const tenant = await notes.rows('tenant').findExisting({ where: { id: tenantId } });
  const tier = isTier(tenant.plan) ? tenant.plan : 'free';
  if (present < caps[feature][tier]) return;
  throw new GatewayError('plan.cap_reached', {
    message: `The plan ${tier} allows ${caps[feature][tier]} ${feature}.`,
    details: { feature, min_tier: tiers.find((next) => present < caps[feature][next]) },
  });
}
