import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { PassportClaims } from '../../../shared/passport/claims.ts';
import type { PassportState } from '../../../shared/passport/passport-state.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import { baseAction, baseClaims, nowMs } from '../../shared/fixtures.ts';
import { loadVectors } from '../../shared/load-vectors.ts';

export interface CheckVector {
  readonly name: string;
  readonly at?: number;
  readonly claims?: Partial<PassportClaims>;
  readonly passport?: Partial<Extract<PassportState, { form: 'signed' }>>;
  readonly action?: Partial<Action>;
  readonly capabilities?: readonly string[];
  readonly fails: readonly { readonly check: string; readonly reason_code: string }[];
}

interface ConstraintVector {
  readonly name: string;
  readonly constraints: JsonObject;
  readonly args: JsonObject;
  readonly resource?: string;
  readonly fails: string | null;
}

/** A golden passport in a form that can be signed and presented. */
export interface PresentedVector {
  readonly name: string;
  readonly claims: Partial<PassportClaims>;
  /** Offset of the passport's times from the current time, in milliseconds. */
  readonly shiftMs: number;
  readonly before: 'nothing' | 'revoked' | 'used';
  readonly action: Pick<Action, 'tool' | 'resource' | 'args'>;
  readonly capabilities: readonly string[] | undefined;
  /** The reason codes of the checks that fail, in the order of the checks. */
  readonly fails: readonly string[];
}

const befores = { revoked: { revoked: true }, used: { use: 'replayed' } };

/** Returns the cases of `passport/checks.yaml` and `constraints.yaml` that a request can cause. */
export function presentedVectors(): readonly PresentedVector[] {
  const checks = loadVectors<CheckVector>('passport/checks.yaml')
    .filter(({ passport, claims }) => isPresentable(passport, claims))
    .map((vector): PresentedVector => {
      const { tool, resource, args } = { ...baseAction, ...vector.action };
      return {
        name: vector.name,
        claims: vector.claims ?? {},
        shiftMs: -(vector.at ?? 0) * 1000,
        before: beforeOf(vector.passport),
        action: { tool, resource, args },
        capabilities: vector.capabilities,
        fails: vector.fails.map(({ reason_code }) => reason_code),
      };
    });
  const constraints = loadVectors<ConstraintVector>('passport/constraints.yaml').map(
    (vector): PresentedVector => ({
      name: vector.name,
      claims: { resource_constraints: vector.constraints },
      shiftMs: 0,
      before: 'nothing',
      action: {
        tool: baseAction.tool,
        resource: vector.resource ?? 'payment:pay_1',
        args: vector.args,
      },
      capabilities: undefined,
      fails: vector.fails === null ? [] : [vector.fails],
    }),
  );
  return [...checks, ...constraints];
}

function isPresentable(
  passport: CheckVector['passport'] = {},
  claims: CheckVector['claims'] = {},
): boolean {
  const isOrdinary = Object.keys(passport).length === 0;
  const isKnown = Object.values(befores).some(
    (known) => JSON.stringify(known) === JSON.stringify(passport),
  );
  // Excludes leases, because they are never presented, and cases in which the bus cannot claim,
  // because no request can cause them.
  return (isOrdinary || isKnown) && claims.lease_size === undefined;
}

function beforeOf(passport: CheckVector['passport'] = {}): PresentedVector['before'] {
  if (passport.revoked === true) return 'revoked';
  return passport.use === 'replayed' ? 'used' : 'nothing';
}

interface Present {
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly nowMs: number;
}

/** Returns the claims of a vector, for an existing agent and user and with current times. */
export function claimsFor({ claims, shiftMs }: PresentedVector, present: Present): PassportClaims {
  const shift = Math.floor((present.nowMs - nowMs + shiftMs) / 1000);
  const all = { ...baseClaims, ...claims };
  return {
    ...all,
    sub: all.sub === baseClaims.sub ? present.agentId : all.sub,
    tenant_id: all.tenant_id === baseClaims.tenant_id ? present.tenantId : all.tenant_id,
    user_id: all.user_id === baseClaims.user_id ? present.userId : all.user_id,
    jti: newId('pp', present.nowMs),
    iat: all.iat + shift,
    nbf: all.nbf + shift,
    exp: all.exp + shift,
  };
}
