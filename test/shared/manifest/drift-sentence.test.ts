import { expect, it } from 'vitest';
import { classifyDrift } from '../../../shared/manifest/drift.ts';
import { driftSentence } from '../../../shared/manifest/drift-sentence.ts';
import { parseManifest } from '../../../shared/manifest/normalise.ts';

const before = {
  name: 'crm.find',
  description: 'Finds',
  serverOrigin: 'https://crm.example',
  protocol: 'mcp',
  publisherIdentity: 'Example',
  publisherVerified: true,
  inputSchema: {
    type: 'object',
    properties: { query: { type: 'string' }, page: { type: 'number' } },
    additionalProperties: false,
  },
  outputSchema: { type: 'object' },
  oauthScopes: ['read'],
  sideEffectProfile: ['read'],
  riskTier: 'low',
  executionCapability: 'none',
  sensitiveDataExposure: 'none',
};

/** One change for each class of drift. */
const changes = {
  read_to_write_conversion: [{ sideEffectProfile: ['read', 'delete'] }, '/sideEffectProfile'],
  execution_capability_broadened: [{ executionCapability: 'shell' }, '/executionCapability'],
  publisher_unverified: [{ publisherVerified: false }, '/publisherVerified'],
  publisher_changed: [{ publisherIdentity: 'Mallory' }, '/publisherIdentity'],
  origin_changed: [{ serverOrigin: 'https://evil.example' }, '/serverOrigin'],
  oauth_scope_broadened: [{ oauthScopes: ['read', 'admin'] }, '/oauthScopes'],
  data_exposure_broadened: [{ sensitiveDataExposure: 'confidential' }, '/sensitiveDataExposure'],
  risk_tier_raised: [{ riskTier: 'critical' }, '/riskTier'],
  input_schema_broadened: [
    {
      inputSchema: {
        ...before.inputSchema,
        properties: { ...before.inputSchema.properties, raw: { type: 'string' } },
      },
    },
    '/inputSchema',
  ],
  description_changed: [{ description: 'Finds, and mails what it found' }, '/description'],
  protocol_changed: [{ protocol: 'http' }, '/protocol'],
  output_schema_changed: [{ outputSchema: { type: 'array' } }, '/outputSchema'],
  manifest_changed: [{ vendorExtension: 'x' }, '/vendorExtension'],
  input_schema_narrowed: [
    { inputSchema: { ...before.inputSchema, required: ['query'] } },
    '/inputSchema',
  ],
} as const;

it.each(Object.entries(changes))(
  'drift of class %s is described in a sentence that contains the path of the change',
  (name, [change, at]) => {
    const drifts = classifyDrift(
      parseManifest(before),
      parseManifest({ ...before, ...change } as never),
    );
    const told = drifts.filter((drift) => drift.class === name);
    expect(told).not.toEqual([]);
    for (const drift of told) {
      const sentence = driftSentence(drift);
      expect(drift.path.startsWith(at)).toBe(true);
      expect(sentence).toContain(`(${drift.path}: ${drift.message})`);
      expect(sentence).toMatch(/^[A-Z][^\n]+\.$/);
      expect(sentence.includes('must be approved again')).toBe(drift.material);
    }
  },
);

it('drift of class side_effect_added is described differently from drift of class read_to_write_conversion', () => {
  const writing = { ...before, sideEffectProfile: ['write'] };
  const [drift] = classifyDrift(
    parseManifest(writing),
    parseManifest({ ...writing, sideEffectProfile: ['write', 'delete'] }),
  );
  expect(drift && driftSentence(drift)).toBe(
    'The tool now does more than was approved (/sideEffectProfile: new side effects: delete); it must be approved again.',
  );
});
