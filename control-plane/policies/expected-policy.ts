import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Policy } from '../platform/store/generated/client.ts';

/** The version of a policy that the author of a change had read. */
export interface ExpectedPolicy {
  readonly hash?: string | undefined;
  /** The header `If-Match` as received. */
  readonly ifMatch?: string | undefined;
}

/**
 * Returns the entity tag of a policy. It is the policy's hash, so that only the reviewed content is
 * published.
 */
export function policyTag({ policyHash }: Pick<Policy, 'policyHash'>): string {
  return `"${policyHash}"`;
}

/**
 * Throws `policy.changed` unless the policy is the version that its reviewer read. Uses 409 instead
 * of 412, because the contract's statuses (section 7) have no 412.
 */
export function assertExpected(
  policy: Pick<Policy, 'id' | 'policyHash'>,
  { hash, ifMatch }: ExpectedPolicy = {},
): void {
  const isExpected = hash === undefined || hash === policy.policyHash;
  if (isExpected && (ifMatch === undefined || isMatched(policy, ifMatch))) return;
  throw new GatewayError('policy.changed', {
    message: `Policy ${policy.id} now has the hash ${policy.policyHash}; read and review it again, then send that hash.`,
  });
}

/** Compares strongly: a weak tag matches nothing. */
function isMatched(policy: Pick<Policy, 'policyHash'>, ifMatch: string): boolean {
  const tags = ifMatch.split(',').map((tag) => tag.trim());
  return tags.includes('*') || tags.includes(policyTag(policy));
}
