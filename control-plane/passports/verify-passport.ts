import type { PassportFailure } from '../../shared/passport/check.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { examinePassport } from './examine-passport.ts';

interface PassportReport {
  readonly valid: boolean;
  readonly errors: readonly PassportFailure[];
  /** What it says, when its signature holds. */
  readonly claims?: PassportClaims;
}

/** Says all that is wrong with a passport. A key bound to an agent reads that agent's only. */
export async function verifyPassport(
  services: Services,
  { tenantId, agentId }: Caller,
  { passport, audience }: { readonly passport: string; readonly audience?: string | undefined },
): Promise<PassportReport> {
  const found = await examinePassport(services, tenantId, { passport, audience, agentId });
  return { valid: found.errors.length === 0, ...found };
}
