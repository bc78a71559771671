import { z } from 'zod';
import { isJsonObject } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { manifestHash } from '../../shared/manifest/hash.ts';
import type { NormalisedManifest } from '../../shared/manifest/manifest.ts';
import { riskTiers } from '../../shared/vocabulary/action.ts';
import { readTextColumn } from '../platform/store/read-column.ts';

const text = z.string().optional();
const object = z.custom(isJsonObject).optional();
const texts = z.array(z.string()).optional();
const members = z.looseObject({
  name: z.string(),
  title: text,
  description: text,
  serverOrigin: text,
  protocol: text,
  publisherIdentity: text,
  publisherVerified: z.literal(true).optional(),
  inputSchema: object,
  outputSchema: object,
  annotations: object,
  oauthScopes: texts,
  sideEffectProfile: texts,
  riskTier: z.enum(riskTiers).optional(),
  executionCapability: text,
  sensitiveDataExposure: text,
});
/**
 * The schema returns the value itself instead of a parsed copy, because the hash of the whole value
 * is compared.
 */
const storedForm = z.custom<NormalisedManifest>((value) => members.safeParse(value).success);

export function readManifest(stored: string): NormalisedManifest {
  return readTextColumn(storedForm, stored, 'tool_version.manifest');
}

/**
 * Parses the manifest of a stored version. Throws if its text does not match the hash. A human
 * approved this hash, and the signature of the tool's row covers it.
 */
export function manifestOf(hash: string, stored: string): NormalisedManifest {
  const manifest = readManifest(stored);
  if (manifestHash(manifest) === hash) return manifest;
  throw new GatewayError('integrity.forged_row', {
    message: 'The stored manifest of the tool is not the approved one, so it is not used.',
  });
}
