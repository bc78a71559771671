import { z } from 'zod';
import { type GrantLimits, grantScopes } from '../../shared/vocabulary/grant-terms.ts';
import type { Approval } from '../platform/store/generated/client.ts';

const storedLimits = z.object({
  uses: z.number().int().min(1),
  ttlSeconds: z.number().int().min(1),
  scope: z.enum(grantScopes),
});

/** How far a standing grant may reach, as the rules said when the approval was opened. */
export function grantLimitsOf({
  grantLimits,
}: Pick<Approval, 'grantLimits'>): GrantLimits | undefined {
  return grantLimits === null ? undefined : storedLimits.parse(grantLimits);
}
