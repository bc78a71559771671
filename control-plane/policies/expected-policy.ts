import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Policy } from '../platform/store/generated/client.ts';

/** Which policy a change was made for, as its maker read it. */
export interface ExpectedPolicy {
  readonly hash?: string | undefined;
  /** The header `If-Match` as it came. */
  readonly ifMatch?: string | undefined;
}

/** The entity tag of a policy is its hash: what a reviewer read is what is published, or nothing. */
export function policyTag({ policyHash }: Pick<Policy, 'policyHash'>): string {
  return `"${policyHash}"`;
}

/**
 * Throws `policy.changed` unless the policy is the one that its reviewer read. 409 and not 412: the
 * contract's statuses (section 7) have no 412, and say 409 where what is stored is in the way.
 */
export function assertExpected(
  policy: Pick<Policy, 'id' | 'policyHash'>,
  { hash, ifMatch }: ExpectedPolicy = {},
): void {
  const isExpected = hash === undefined || hash === policy.policyHash;
  if (isExpected && (ifMatch === undefined || isMatched(policy, ifMatch))) return;
  throw new GatewayError('policy.changed', {
    message: `Policy ${policy.id} has the hash ${policy.policyHash} by now: read and review it again, then name that hash.`,
  });
}

/** Strong comparison: a weak tag matches nothing. */
function isMatched(policy: Pick<Policy, 'policyHash'>, ifMatch: string): boolean {
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  return tags.includes('*') || tags.includes(policyTag(policy));
}
