import type { JsonObject } from '../base/json.ts';
import type { RiskTier } from '../vocabulary/action.ts';

/**
 * A tool manifest in its normal form (contract 2.5): what equals its default is left out, what is
 * a set is sorted. Members that are not known here stay, and count when versions are compared.
 */
export interface NormalisedManifest extends JsonObject {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly serverOrigin?: string;
  readonly protocol?: string;
  readonly publisherIdentity?: string;
  /** Left out when false. */
  readonly publisherVerified?: true;
  readonly inputSchema?: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly oauthScopes?: readonly string[];
  readonly sideEffectProfile?: readonly string[];
  /** Left out when it is the default. */
  readonly riskTier?: RiskTier;
  readonly executionCapability?: string;
  readonly sensitiveDataExposure?: string;
}

/** A manifest that declares no risk is not taken for a harmless one. */
export const riskTierDefault: RiskTier = 'medium';

export function riskTierOf(manifest: NormalisedManifest): RiskTier {
  return manifest.riskTier ?? riskTierDefault;
}
