import { hash } from 'node:crypto';
import { newId } from '../../shared/base/ids.ts';
import { sidecarAudience } from '../../shared/passport/audience.ts';
import type { PassportClaims } from '../../shared/passport/claims.ts';
import { buildClaims, ttlSecondsMax } from '../../shared/passport/issue.ts';
import type { RiskTier } from '../../shared/vocabulary/action.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import type { LiveSidecar } from '../core/live-sidecars.ts';
import type { Approval } from '../platform/store/generated/client.ts';
import { passportIssuer } from './mint-passport.ts';

/**
 * This file creates the two kinds of passports that the control plane issues for sidecars. All
 * claims, including jti and times, are derived from rows. Therefore every control plane, and every
 * later version, signs the same text, and no signed text is stored.
 */

export const leaseSeconds = 300;
const leaseSize = 10_000_000;

/** Column values of a passport that is not a renewal and that attests no user's presence. */
export const neverRenewed = {
  renewedFrom: null,
  rootJti: null,
  rootIssuedAt: null,
  attestedBy: null,
};

interface LeaseSource {
  readonly sidecar: LiveSidecar;
  readonly agent: { readonly goal: string | null; readonly capabilities: readonly string[] };
  readonly policyHash: string;
  readonly jti: string;
  readonly issuedAt: Date;
}

/**
 * Builds the claims of a sidecar's lease, which allows everything that the agent is registered for.
 * Calls without their own passport use the lease.
 */
export function leaseClaims({
  sidecar,
  agent,
  policyHash,
  jti,
  issuedAt,
}: LeaseSource): PassportClaims {
  const claims = buildClaims({
    issuer: passportIssuer,
    agentId: sidecar.agentId,
    audience: sidecarAudience(sidecar.id),
    tenantId: sidecar.tenantId,
    userId: sidecar.userId,
    goal: agent.goal ?? '',
    allowedTools: agent.capabilities,
    riskTier: 'low',
    policyId: '',
    policyHash,
    ttlSeconds: leaseSeconds,
    leaseSize,
    nowMs: issuedAt.getTime(),
  });
  return { ...claims, jti };
}

export function newLeaseJti(nowMs: number): string {
  return newId('pp', nowMs);
}

type GrantSource = Pick<
  Approval,
  | 'tenantId'
  | 'id'
  | 'agentId'
  | 'userId'
  | 'tool'
  | 'resource'
  | 'riskTier'
  | 'goal'
  | 'policyHash'
> & {
  readonly sidecarId: string;
  readonly eventHash: string;
  readonly decidedAt: Date;
  readonly expiresAtMs: number;
};

/**
 * Builds the claims of the passport that is bound to an approval, for the approval's tool and
 * resource. The passport expires with the grant, or after the maximum lifetime of a passport.
 * Returns undefined if too little time is left.
 */
export function grantClaims(approval: GrantSource): PassportClaims | undefined {
  const { decidedAt, expiresAtMs, riskTier } = approval;
  const seconds = Math.floor(expiresAtMs / 1000) - Math.floor(decidedAt.getTime() / 1000);
  if (seconds < 5) return undefined;
  const claims = buildClaims({
    issuer: passportIssuer,
    agentId: approval.agentId,
    audience: sidecarAudience(approval.sidecarId),
    tenantId: approval.tenantId,
    userId: approval.userId,
    goal: approval.goal ?? '',
    allowedTools: [approval.tool],
    // The approval's digest covers the resource, even if the passport does not name it.
    allowedResources: isResourceGlob(approval.resource) ? [approval.resource] : [],
    riskTier: riskTierOf(riskTier),
    policyId: '',
    policyHash: approval.policyHash ?? '',
    approvalHash: approval.eventHash,
    ttlSeconds: Math.min(seconds, ttlSecondsMax),
    nowMs: decidedAt.getTime(),
  });
  return { ...claims, jti: grantJti(approval) };
}

/** Returns whether a passport can name this resource: it must be text up to a maximum length. */
function isResourceGlob(resource: string): boolean {
  return resource !== '' && resource.length <= 1024;
}

function riskTierOf(stored: string): RiskTier {
  return riskTiers.find((known) => known === stored) ?? 'critical';
}

/**
 * Returns the jti of a grant, in the common form (design 5: it contains the time of issue). Its
 * random part is derived from the decision's hash, so that every issuer creates the same passport
 * for a decision.
 */
function grantJti({ tenantId, id, eventHash, decidedAt }: GrantSource): string {
  const bits = hash('sha256', `grant\n${tenantId}\n${id}\n${eventHash}`, 'hex');
  const time = decidedAt.getTime().toString(16).padStart(12, '0');
  return `pp_${time}7${bits.slice(0, 3)}8${bits.slice(3, 18)}`;
}
