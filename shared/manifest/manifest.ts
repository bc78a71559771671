import type { JsonObject } from '../base/json.ts';
import type { RiskTier } from '../vocabulary/action.ts';

/**
 * A tool manifest in normal form: default values are removed, sets are sorted. Unknown members are
 * kept and count when versions are compared.
 */
export interface NormalisedManifest extends JsonObject {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly serverOrigin?: string;
  readonly protocol?: string;
  readonly publisherIdentity?: string;
  /** Absent if false. */
  readonly publisherVerified?: true;
  readonly inputSchema?: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly oauthScopes?: readonly string[];
  readonly sideEffectProfile?: readonly string[];
  /** Absent if it is the default. */
  readonly riskTier?: RiskTier;
  readonly executionCapability?: string;
  readonly sensitiveDataExposure?: string;
}

/** Not `low`, because a manifest without a risk tier is not necessarily harmless. */
export const riskTierDefault: RiskTier = 'medium';

export function riskTierOf(manifest: NormalisedManifest): RiskTier {
  return manifest.riskTier ?? riskTierDefault;
}
