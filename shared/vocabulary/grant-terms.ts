import type { ErrorCode } from '../errors/error-kinds.ts';
import type { RiskTier } from './action.ts';
import { roleSuffices } from './roles.ts';

export const grantScopes = ['action', 'tool'] as const;
export type GrantScope = (typeof grantScopes)[number];

/** How far one human decision may reach: what the rules that asked for it allow together. */
export interface GrantLimits {
  readonly uses: number;
  readonly ttlSeconds: number;
  readonly scope: GrantScope;
}

/** A rule's `approval.grant`. */
export interface RuleGrant {
  readonly max_uses?: number | undefined;
  readonly max_ttl_seconds?: number | undefined;
  readonly scope?: GrantScope | undefined;
}

/** What a decider asks for. */
export interface GrantRequest {
  readonly uses?: number | undefined;
  readonly ttlSeconds?: number | undefined;
  readonly scope?: GrantScope | undefined;
}

/** A standing grant as the ledger records it: for whom, for what, and on whose authority. */
export interface StandingGrant {
  readonly uses: number;
  readonly scope: GrantScope;
  readonly ttlSeconds: number;
  readonly agentId: string;
  readonly userId: string;
  readonly tool: string;
  /** The tool's manifest when it was granted; null for a tool that was not registered. */
  readonly manifestHash: string | null;
  /** What the deciders satisfied. */
  readonly minRole: string;
  readonly quorum: number;
}

export const grantBounds = {
  usesMax: 1_000,
  ttlSecondsMin: 60,
  /** Thirty days. */
  ttlSecondsMax: 2_592_000,
} as const;

/** How long a grant may be used when nobody says otherwise. */
export const grantSecondsByDefault = 3_600;

/**
 * What several rules allow together: the least of each. A rule that allows no standing grant
 * forbids it for all; a limit that a rule leaves out is the one of a grant without terms.
 */
export function jointGrantLimits(
  grants: readonly (RuleGrant | undefined)[],
): GrantLimits | undefined {
  let joint: GrantLimits | undefined;
  for (const grant of grants) {
    if (grant === undefined) return undefined;
    const { max_uses = 1, max_ttl_seconds = grantSecondsByDefault, scope = 'action' } = grant;
    joint = {
      uses: Math.min(joint?.uses ?? max_uses, max_uses),
      ttlSeconds: Math.min(joint?.ttlSeconds ?? max_ttl_seconds, max_ttl_seconds),
      scope: joint?.scope === 'action' ? 'action' : scope,
    };
  }
  return joint;
}

/** What several deciders grant together: the least of what each asked for, and once if one did. */
export function narrowestGrant(
  grants: readonly (GrantLimits | undefined)[],
): GrantLimits | undefined {
  return jointGrantLimits(
    grants.map(
      (grant) =>
        grant && {
          max_uses: grant.uses,
          max_ttl_seconds: grant.ttlSeconds,
          scope: grant.scope,
        },
    ),
  );
}

export type GrantAgreement =
  | { readonly ok: true; readonly terms: GrantLimits }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

/**
 * The terms of a standing grant that a decider asks for, or why it cannot be had. Uses left out
 * are one, or with a time given as many as the rules allow in it.
 */
export function agreeGrant(
  { uses, ttlSeconds, scope }: GrantRequest,
  { limits, riskTier }: { readonly limits: GrantLimits | undefined; readonly riskTier: RiskTier },
): GrantAgreement {
  if (riskTier === 'critical') {
    return refuse('An action of critical risk is approved once, never for more.');
  }
  if (limits === undefined) {
    return refuse('The rules that ask for this approval allow it once, and no standing grant.');
  }
  const terms: GrantLimits = {
    uses: uses ?? (ttlSeconds === undefined ? 1 : limits.uses),
    ttlSeconds: ttlSeconds ?? Math.min(grantSecondsByDefault, limits.ttlSeconds),
    scope: scope ?? 'action',
  };
  if (terms.uses > limits.uses) return refuse(`uses: the rules allow ${limits.uses} at most.`);
  if (terms.ttlSeconds > limits.ttlSeconds) {
    return refuse(`ttl_seconds: the rules allow ${limits.ttlSeconds} at most.`);
  }
  if (terms.scope === 'tool' && limits.scope !== 'tool') {
    return refuse('scope: the rules allow a grant for this very action only.');
  }
  return { ok: true, terms };
}

function refuse(message: string): GrantAgreement {
  return { ok: false, code: 'approval.grant_refused', message };
}

/** What the rules that match ask of a human (see `ApprovalTerms`). */
interface AskedTerms {
  readonly minRole: string;
  readonly quorum: number;
  readonly grant?: GrantLimits | undefined;
}

/**
 * Whether a standing grant is authority enough for what the rules ask now. Other arguments can
 * match other rules, and policies change: a grant never outlives the permission it rests on.
 */
export function satisfiesTerms(grant: StandingGrant, terms: AskedTerms): boolean {
  const { grant: limits } = terms;
  if (limits === undefined) return false;
  return (
    grant.uses <= limits.uses &&
    grant.ttlSeconds <= limits.ttlSeconds &&
    (grant.scope === 'action' || limits.scope === 'tool') &&
    roleSuffices(grant.minRole, terms.minRole) &&
    grant.quorum >= terms.quorum
  );
}
