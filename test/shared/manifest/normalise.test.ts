import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { manifestHash, sameButName, surfaceHash } from '../../../shared/manifest/hash.ts';
import { riskTierOf } from '../../../shared/manifest/manifest.ts';
import { parseManifest } from '../../../shared/manifest/normalise.ts';

const full = {
  name: 'mcp.payments.refund',
  title: 'Refund',
  description: 'Refunds a payment.',
  serverOrigin: 'https://mcp.payments.example',
  protocol: 'mcp',
  publisherIdentity: 'Payments Ltd',
  publisherVerified: true,
  inputSchema: { type: 'object', required: ['b', 'a'], properties: { a: {}, b: {} } },
  outputSchema: { type: 'object' },
  oauthScopes: ['write', 'read', 'write'],
  sideEffectProfile: ['write', 'payment'],
  riskTier: 'high',
  executionCapability: 'network',
  sensitiveDataExposure: 'pii',
};

describe('normalising a manifest', () => {
  it('keeps every field of a full manifest, with sorted sets', () => {
    expect(parseManifest(full)).toEqual({
      ...full,
      inputSchema: { ...full.inputSchema, required: ['a', 'b'] },
      oauthScopes: ['read', 'write'],
      sideEffectProfile: ['payment', 'write'],
    });
  });

  it('accepts a manifest that has only a name, and sets the default risk', () => {
    const manifest = parseManifest({ name: 'x' });
    expect(manifest).toEqual({ name: 'x' });
    expect(riskTierOf(manifest)).toBe('medium');
  });

  it('registers a bundle of several tools only under the name of the bundle', () => {
    expect(parseManifest({ name: 'bundle', tools: [{ name: 'a' }, { name: 'b' }] }).name).toBe(
      'bundle',
    );
  });

  it('is idempotent', () => {
    const once = parseManifest(full);
    expect(parseManifest(once)).toEqual(once);
    expect(manifestHash(parseManifest(once))).toBe(manifestHash(once));
  });

  it.each<[unknown, string]>([
    [undefined, 'manifest '],
    [null, 'manifest '],
    ['x', 'manifest '],
    [[], 'manifest '],
    [{}, 'manifest.name '],
    [{ name: undefined }, 'manifest.name '],
    [{ name: null }, 'manifest.name '],
    [{ name: '' }, 'manifest.name '],
    [{ name: 5 }, 'manifest.name '],
    [{ name: 'a*' }, 'manifest.name '],
    [{ name: 'a\nb' }, 'manifest.name '],
    [{ name: 'a'.repeat(257) }, 'manifest.name '],
    [{ name: 'x', description: 5 }, 'manifest.description '],
    [{ name: 'x', publisherVerified: 'yes' }, 'manifest.publisherVerified '],
    [{ name: 'x', inputSchema: true }, 'manifest.inputSchema '],
    [{ name: 'x', outputSchema: [] }, 'manifest.outputSchema '],
    [{ name: 'x', oauthScopes: 'read' }, 'manifest.oauthScopes '],
    [{ name: 'x', oauthScopes: ['a', 5] }, 'manifest.oauthScopes[1] '],
    [{ name: 'x', sideEffectProfile: [''] }, 'manifest.sideEffectProfile[0] '],
    [{ name: 'x', riskTier: 'extreme' }, 'manifest.riskTier '],
    [{ name: 'x', executionCapability: [] }, 'manifest.executionCapability '],
    [{ name: 'x', annotations: 'none' }, 'manifest.annotations '],
  ])('refuses the manifest %j with an error that names the field', (input, field) => {
    expect(() => parseManifest(input)).toThrow(
      expect.objectContaining({
        code: 'args.schema_invalid',
        message: expect.stringContaining(field),
      }),
    );
  });

  it.each([
    { name: 'x', description: '\ud800' },
    { name: 'x', inputSchema: { default: Number.NaN } },
    { name: 'x', inputSchema: JSON.parse(`${'{"not":'.repeat(200)}{}${'}'.repeat(200)}`) },
  ])('refuses input without a canonical form (%#)', (input) => {
    expect(() => parseManifest(input)).toThrow(
      expect.objectContaining({ code: 'args.schema_invalid' }),
    );
  });

  it('keeps a member named __proto__ as data; this member changes the hash', () => {
    const manifest = parseManifest(JSON.parse('{"name":"x","__proto__":{"riskTier":"low"}}'));
    expect(riskTierOf(manifest)).toBe('medium');
    expect(manifestHash(manifest)).not.toBe(manifestHash(parseManifest({ name: 'x' })));
  });
});

describe('the hashes of a manifest', () => {
  it('do not depend on the order of members', () => {
    const reversed = Object.fromEntries(Object.entries(full).reverse());
    expect(manifestHash(parseManifest(reversed))).toBe(manifestHash(parseManifest(full)));
    expect(manifestHash(parseManifest(full))).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it('include a surface hash equal to the surface hash of the same tool in tools/list', () => {
    const wire: JsonObject = {
      name: full.name,
      title: full.title,
      description: full.description,
      inputSchema: { properties: { b: {}, a: {} }, required: ['a', 'b'], type: 'object' },
      outputSchema: full.outputSchema,
      annotations: {},
      icons: [{ src: 'x' }],
      _meta: { at: 1 },
      execution: { taskSupport: 'optional' },
    };
    expect(surfaceHash(wire)).toBe(surfaceHash(parseManifest(full)));
  });

  it.each<JsonObject>([
    { title: 'x' },
    { description: 'x' },
    { inputSchema: {} },
    { outputSchema: {} },
    { annotations: { readOnlyHint: true } },
    { name: 'y' },
  ])('include a surface hash that changes if the manifest is changed by %j', (change) => {
    expect(surfaceHash({ ...full, ...change })).not.toBe(surfaceHash(full));
  });

  it('include a surface hash that does not depend on fields outside tools/list', () => {
    expect(surfaceHash({ ...full, riskTier: 'low', oauthScopes: [] })).toBe(surfaceHash(full));
  });

  it('cannot be computed for a malformed tool in tools/list', () => {
    for (const tool of [{}, { name: 5 }, { name: 'x', inputSchema: 'y' }] as JsonObject[]) {
      expect(() => surfaceHash(tool)).toThrow();
    }
  });

  it('are equal if and only if the manifests are equal', () => {
    const value = fc.jsonValue({ maxDepth: 2 }).map((json) => JSON.parse(JSON.stringify(json)));
    const hashOf = (extra: unknown) => manifestHash(parseManifest({ name: 'x', extra: [extra] }));
    fc.assert(
      fc.property(value, value, (one, other) => {
        expect(hashOf(one) === hashOf(other)).toBe(isDeepStrictEqual(one, other));
        expect(hashOf(one)).toBe(hashOf(structuredClone(one)));
      }),
    );
  });
});

describe('detecting a renamed tool', () => {
  it('reports a rename if only the names of two tools differ', () => {
    expect(sameButName(full, { ...full, name: 'mcp.payments.refund_v2' })).toBe(true);
  });

  it('reports no rename if the names are equal or the descriptions differ', () => {
    expect(sameButName(full, { ...full })).toBe(false);
    expect(sameButName(full, { ...full, name: 'y', description: 'Pays.' })).toBe(false);
  });

  it('reports no rename if both tools have only a name', () => {
    expect(sameButName({ name: 'a' }, { name: 'b', description: '' })).toBe(false);
  });
});
