import type { ErrorCode } from '../errors/error-kinds.ts';
import type { RiskTier } from './action.ts';
import { roleSuffices } from './roles.ts';

export const grantScopes = ['action', 'tool'] as const;
export type GrantScope = (typeof grantScopes)[number];

/**
 * The widest grant that one human decision may give: the combined limits of all rules that require
 * the decision.
 */
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

/** The terms that a decider requests. */
export interface GrantRequest {
  readonly uses?: number | undefined;
  readonly ttlSeconds?: number | undefined;
  readonly scope?: GrantScope | undefined;
}

/** A standing grant as the ledger records it: holder, coverage and the deciders' authority. */
export interface StandingGrant {
  readonly uses: number;
  readonly scope: GrantScope;
  readonly ttlSeconds: number;
  readonly agentId: string;
  readonly userId: string;
  readonly tool: string;
  /** The tool's manifest at the time of the grant; null for an unregistered tool. */
  readonly manifestHash: string | null;
  /** The minimum role of the deciders. */
  readonly minRole: string;
  readonly quorum: number;
}

export const grantBounds = {
  usesMax: 1_000,
  ttlSecondsMin: 60,
  /** Thirty days. */
  ttlSecondsMax: 2_592_000,
} as const;

/** How long a grant is valid if no duration is requested. */
export const grantSecondsByDefault = 3_600;

/**
 * Returns for each limit the lowest value that any of the rules sets. Undefined if one rule allows
 * no standing grant. A limit that a rule omits has its default: one use, `grantSecondsByDefault`,
 * scope `action`.
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

/**
 * Returns for each term the lowest value that any of the deciders requests. Undefined (a single
 * call only) if one decider requests no standing grant.
 */
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
 * The terms of the standing grant that a decider requests, or the reason for refusing it. If `uses`
 * is omitted, the grant has one use, or the rules' maximum if `ttlSeconds` is given.
 */
export function agreeGrant(
  { uses, ttlSeconds, scope }: GrantRequest,
  { limits, riskTier }: { readonly limits: GrantLimits | undefined; readonly riskTier: RiskTier },
): GrantAgreement {
  if (riskTier === 'critical') {
    return refuse('An action of critical risk cannot have a standing grant; approve it once.');
  }
  if (limits === undefined) {
    return refuse(
      'The rules that require this approval do not allow a standing grant; approve the action once.',
    );
  }
  const terms: GrantLimits = {
    uses: uses ?? (ttlSeconds === undefined ? 1 : limits.uses),
    ttlSeconds: ttlSeconds ?? Math.min(grantSecondsByDefault, limits.ttlSeconds),
    scope: scope ?? 'action',
  };
  if (terms.uses > limits.uses) return refuse(`uses: the rules allow at most ${limits.uses}.`);
  if (terms.ttlSeconds > limits.ttlSeconds) {
    return refuse(`ttl_seconds: the rules allow at most ${limits.ttlSeconds}.`);
  }
  if (terms.scope === 'tool' && limits.scope !== 'tool') {
    return refuse('scope: the rules allow only scope "action"; use it.');
  }
  return { ok: true, terms };
}

function refuse(message: string): GrantAgreement {
  return { ok: false, code: 'approval.grant_refused', message };
}

/** The approval that the matching rules require (see `ApprovalTerms`). */
interface AskedTerms {
  readonly minRole: string;
  readonly quorum: number;
  readonly grant?: GrantLimits | undefined;
}

/**
 * True if a standing grant satisfies the terms that the rules currently require. Terms are checked
 * at every use, because other arguments can match other rules and policies change.
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
