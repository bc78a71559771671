import type { JsonObject } from '../base/json.ts';
import type { RiskTier } from '../vocabulary/action.ts';

export const passportType = 'action-passport+jwt';

/** In `user_id`: the passport is valid for every user that its agent acts for. */
export const anyUser = '*';

/** The payload of an Action Passport. Times are seconds since the Unix epoch (RFC 7519). */
export interface PassportClaims {
  readonly iss: string;
  /** The agent's id. */
  readonly sub: string;
  readonly aud: string;
  readonly tenant_id: string;
  readonly user_id: string;
  readonly goal: string;
  /** Tool globs (`*` within a segment, `**` across segments, a lone `*` everything). */
  readonly allowed_tools: readonly string[];
  /** Resource globs; empty or absent: every resource. */
  readonly allowed_resources: readonly string[];
  readonly resource_constraints: JsonObject;
  readonly risk_tier: RiskTier;
  readonly policy_id: string;
  readonly policy_hash: string;
  readonly approval_hash: string | null;
  readonly jti: string;
  readonly iat: number;
  readonly nbf: number;
  readonly exp: number;
  /** A lease: this passport covers the jtis `<jti>.0` … `<jti>.<lease_size - 1>`. */
  readonly lease_size?: number;
}
