import type { JsonObject } from '../../shared/base/json.ts';
import { classifyDrift, type Drift, isMaterial } from '../../shared/manifest/drift.ts';
import { manifestHash } from '../../shared/manifest/hash.ts';
import { parseManifest } from '../../shared/manifest/normalise.ts';

interface ToolDiff {
  readonly beforeHash: string;
  readonly afterHash: string;
  readonly material: boolean;
  readonly drift: readonly Drift[];
}

/** Classifies what changed from one manifest to the other; nothing is looked up or stored. */
export function diffTools(before: JsonObject, after: JsonObject): ToolDiff {
  const [old, now] = [parseManifest(before), parseManifest(after)];
  const drift = classifyDrift(old, now);
  return {
    beforeHash: manifestHash(old),
    afterHash: manifestHash(now),
    material: isMaterial(drift),
    drift,
  };
}
