import type { ErrorCode } from '../errors/error-kinds.ts';
import { matchesAnyGlob } from '../glob/glob.ts';
import type { Action } from '../vocabulary/action.ts';
import { anyUser } from './claims.ts';
import { constraintNames, violates } from './constraints.ts';
import type { PassportState } from './passport-state.ts';

type SignedPassport = Extract<PassportState, { readonly form: 'signed' }>;

/** One failed check, as in the response of the verify operation. */
export interface PassportFailure {
  readonly check: string;
  readonly reason_code: ErrorCode;
  readonly message: string;
}

/** The values that a passport is compared with. Absent values are not checked. */
interface PassportTarget {
  readonly tenantId: string;
  readonly nowMs: number;
  readonly audience?: string | undefined;
  readonly action?: Pick<Action, 'agentId' | 'userId' | 'tool' | 'resource' | 'args'> | undefined;
  /** The agent's current capabilities, the upper bound for the tools of its passports. */
  readonly capabilities?: readonly string[] | undefined;
}

type Check = (passport: SignedPassport, target: PassportTarget) => PassportFailure | undefined;

/**
 * Tolerated clock difference to the issuer. Only `nbf` has leeway, because otherwise a new passport
 * could be refused on arrival; expiry is exact.
 */
const clockLeewayMs = 5_000;

const checks: readonly Check[] = [
  checkSource,
  checkExpiry,
  checkNotBefore,
  checkTenant,
  checkAudience,
  checkRevocation,
  checkUse,
  checkAgent,
  checkUser,
  checkTool,
  checkResource,
  ...constraintNames.map(
    (name): Check =>
      ({ claims }, { action }) => {
        if (action === undefined) return undefined;
        const violation = violates(name, claims.resource_constraints, action);
        return violation && failure(name, violation.reasonCode, violation.message);
      },
  ),
];

/** The first of the ordered checks that a passport fails; undefined if it passes all. */
export function firstPassportFailure(
  passport: PassportState,
  target: PassportTarget,
): PassportFailure | undefined {
  if (passport.form !== 'signed') return formFailure(passport);
  for (const check of checks) {
    const failed = check(passport, target);
    if (failed !== undefined) return failed;
  }
  return undefined;
}

/** Every check that a passport fails. */
export function passportFailures(
  passport: PassportState,
  target: PassportTarget,
): readonly PassportFailure[] {
  if (passport.form !== 'signed') return [formFailure(passport)];
  return checks.map((check) => check(passport, target)).filter((failed) => failed !== undefined);
}

function failure(check: string, reason_code: ErrorCode, message: string): PassportFailure {
  return { check, reason_code, message };
}

function formFailure(passport: Exclude<PassportState, SignedPassport>): PassportFailure {
  switch (passport.form) {
    case 'malformed': {
      const message = `The passport is malformed: ${passport.detail}.`;
      return failure('form', 'passport.malformed', message);
    }
    case 'signature_invalid': {
      const message = `The passport does not verify: ${passport.detail}.`;
      return failure('signature', 'passport.signature_invalid', message);
    }
    case 'no_lease':
      return failure(
        'form',
        'passport.lease_exhausted',
        'The sidecar has no passport lease at the moment; retry.',
      );
  }
}

/**
 * Refuses a lease that an agent presents, and any other passport in place of a lease. Only the
 * sidecar that holds a lease can use the lease's numbers.
 */
function checkSource({ claims, source }: SignedPassport): PassportFailure | undefined {
  return (source === 'lease') === (claims.lease_size !== undefined)
    ? undefined
    : failure('form', 'passport.malformed', 'A lease cannot be presented as a passport.');
}

function checkExpiry({ claims }: SignedPassport, { nowMs }: PassportTarget) {
  // RFC 7519 section 4.1.4: a token is refused on or after exp.
  return nowMs < claims.exp * 1000
    ? undefined
    : failure('exp', 'passport.expired', `The passport expired at ${at(claims.exp)}.`);
}

function checkNotBefore({ claims }: SignedPassport, { nowMs }: PassportTarget) {
  return nowMs + clockLeewayMs >= claims.nbf * 1000
    ? undefined
    : failure(
        'nbf',
        'passport.not_yet_valid',
        `The passport is not valid before ${at(claims.nbf)}.`,
      );
}

function at(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? `second ${seconds}` : date.toISOString();
}

function checkTenant({ claims }: SignedPassport, { tenantId }: PassportTarget) {
  return claims.tenant_id === tenantId
    ? undefined
    : failure(
        'tenant',
        'passport.tenant_mismatch',
        'The passport was issued by a different tenant.',
      );
}

function checkAudience({ claims }: SignedPassport, { audience }: PassportTarget) {
  return audience === undefined || claims.aud === audience
    ? undefined
    : failure(
        'audience',
        'passport.audience_mismatch',
        `The passport is for ${claims.aud}, not for ${audience}.`,
      );
}

function checkRevocation({ revoked }: SignedPassport): PassportFailure | undefined {
  return revoked
    ? failure('revocation', 'passport.revoked', 'The passport was revoked.')
    : undefined;
}

function checkUse({ use }: SignedPassport): PassportFailure | undefined {
  switch (use) {
    case 'unclaimed':
    case 'claimed':
      return undefined;
    case 'replayed':
      return failure('replay', 'passport.replay_detected', 'The passport was already used.');
    case 'unavailable':
      return failure(
        'replay',
        'passport.claim_unavailable',
        'Single use of the passport cannot be verified at the moment; retry.',
      );
  }
}

function checkAgent({ claims }: SignedPassport, { action }: PassportTarget) {
  return action === undefined || claims.sub === action.agentId
    ? undefined
    : failure(
        'agent',
        'passport.agent_mismatch',
        `The passport belongs to agent ${claims.sub}, not to agent ${action.agentId}.`,
      );
}

function checkUser({ claims }: SignedPassport, { action }: PassportTarget) {
  const { user_id } = claims;
  return action === undefined || user_id === action.userId || user_id === anyUser
    ? undefined
    : failure(
        'user',
        'passport.user_mismatch',
        `The passport was issued for user ${user_id}, not for user ${action.userId}.`,
      );
}

function checkTool({ claims }: SignedPassport, { action, capabilities }: PassportTarget) {
  if (action === undefined) return undefined;
  // Capabilities are checked first. A sidecar's own passports contain the capabilities, so the
  // message must tell the operator to extend the capabilities, not the passport.
  if (capabilities !== undefined && !matchesAnyGlob(capabilities, action.tool, 'tool')) {
    return failure(
      'tool',
      'passport.tool_not_allowed',
      `The agent's capabilities (${listGlobs(capabilities)}) do not cover ${action.tool}.`,
    );
  }
  return matchesAnyGlob(claims.allowed_tools, action.tool, 'tool')
    ? undefined
    : failure(
        'tool',
        'passport.tool_not_allowed',
        `The passport covers ${listGlobs(claims.allowed_tools)}, not ${action.tool}.`,
      );
}

function checkResource({ claims }: SignedPassport, { action }: PassportTarget) {
  const allowed = claims.allowed_resources;
  if (action === undefined || allowed.length === 0) return undefined;
  return coversResource(allowed, action.resource)
    ? undefined
    : failure(
        'resource',
        'passport.resource_not_allowed',
        `The passport covers the resources ${listGlobs(allowed)}, not ${action.resource}.`,
      );
}

// `.` and `..` segments, also percent-encoded: an upstream may resolve them to a path outside the
// glob.
const dotSegments = /(?:^|[/:\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/:\\]|%2f|%5c)/i;

function coversResource(allowed: readonly string[], resource: string): boolean {
  if (!dotSegments.test(resource)) return matchesAnyGlob(allowed, resource, 'resource');
  return allowed.some((pattern) => pattern === resource || pattern === '*' || pattern === '**');
}

/** Formats globs for a message: the first five, and the number of others. */
export function listGlobs(globs: readonly string[]): string {
  if (globs.length === 0) return 'nothing';
  const more = globs.length - 5;
  return more > 0 ? `${globs.slice(0, 5).join(', ')} and ${more} more` : globs.join(', ');
}
