import { GatewayError } from '../../shared/errors.ts';
import { manifestHash } from '../../shared/manifest/hash.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';

/**
 * The manifest of a stored version, if its text is what the hash stands for: the hash is what a
 * human approved, and what the tool's row is signed with.
 */
export function manifestOf(hash: string, text: string): NormalisedManifest {
  const manifest = JSON.parse(text) as NormalisedManifest;
  if (manifestHash(manifest) === hash) return manifest;
  throw new GatewayError('integrity.forged_row', {
    message: 'The stored manifest of the tool is not the one that was approved: it is not used.',
  });
}
