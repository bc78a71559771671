import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { nextStatus } from '../../../shared/manifest/approval-status.ts';
import { classifyDrift, driftReason, isMaterial } from '../../../shared/manifest/drift.ts';
import { manifestHash } from '../../../shared/manifest/hash.ts';
import { normaliseSchema, parseManifest } from '../../../shared/manifest/normalise.ts';
import { compareSchemas } from '../../../shared/manifest/schema-drift.ts';
import { argsValidator } from '../../../shared/manifest/validator.ts';
import { loadVectors } from '../load-vectors.ts';

interface ManifestVector {
  readonly name: string;
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly drifts: readonly (readonly [string, string, boolean])[];
}

interface SchemaVector {
  readonly name: string;
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly changes: readonly (readonly [string, string])[];
}

const manifestOf = (fields: JsonObject) =>
  parseManifest({ name: 'mcp.payments.refund', ...fields });

describe('drift of a manifest', () => {
  it.each(loadVectors<ManifestVector>('drift/manifest.yaml'))('is classified: $name', (vector) => {
    const before = manifestOf(vector.before);
    const after = manifestOf(vector.after);
    const drifts = classifyDrift(before, after);
    expect(drifts.map((one) => [one.class, one.path, one.material])).toEqual(vector.drifts);
    for (const one of drifts) expect(one.reason_code).toBe(`tool.${one.class}`);
    expect(manifestHash(before) === manifestHash(after)).toBe(drifts.length === 0);
    const material = vector.drifts.filter(([, , isIt]) => isIt);
    expect(driftReason(drifts)).toBe(material[0] && `tool.${material[0][0]}`);
  });

  it('is reported if and only if the manifest hash changed', () => {
    const fields = fc.record(
      {
        description: fc.constantFrom('a', 'b'),
        riskTier: fc.constantFrom('low', 'high'),
        oauthScopes: fc.subarray(['r', 'w']),
        inputSchema: fc.constantFrom<JsonObject>({ type: 'object' }, { required: ['a'] }, { x: 1 }),
        annotations: fc.constantFrom<JsonObject>({ readOnlyHint: true }, { other: 1 }),
        other: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fields, fields, (one, other) => {
        const before = manifestOf(JSON.parse(JSON.stringify(one)));
        const after = manifestOf(JSON.parse(JSON.stringify(other)));
        const isSame = manifestHash(before) === manifestHash(after);
        expect(classifyDrift(before, after).length === 0).toBe(isSame);
      }),
    );
  });
});

describe('drift of an input schema', () => {
  const vectors = loadVectors<SchemaVector>('drift/input-schema.yaml');

  it.each(vectors)('is classified: $name', (vector) => {
    const before = normaliseSchema(vector.before);
    const after = normaliseSchema(vector.after);
    const changes = compareSchemas(before, after, '');
    expect(changes.map(({ kind, path }) => [kind, path])).toEqual(vector.changes);
  });

  it.each(vectors)('is material unless it only narrows the schema: $name', (vector) => {
    const drifts = classifyDrift(
      manifestOf({ inputSchema: vector.before }),
      manifestOf({ inputSchema: vector.after }),
    );
    expect(isMaterial(drifts)).toBe(vector.changes.some(([kind]) => kind !== 'narrowed'));
  });

  it('is reported as narrowing only if the old schema accepts every value that the new schema accepts', () => {
    const leaf = fc.record(
      {
        type: fc.constantFrom('integer', 'number', 'string'),
        minimum: fc.integer({ min: 0, max: 3 }),
        exclusiveMaximum: fc.integer({ min: 1, max: 4 }),
        multipleOf: fc.integer({ min: 1, max: 4 }),
        enum: fc.subarray([0, 1, 2, 'a'], { minLength: 1 }),
        minLength: fc.integer({ min: 0, max: 2 }),
      },
      { requiredKeys: [] },
    );
    const schema = fc.record(
      {
        properties: fc.record({ a: leaf, b: leaf }, { requiredKeys: [] }),
        required: fc.subarray(['a', 'b']),
        additionalProperties: fc.oneof(fc.boolean(), leaf),
        maxProperties: fc.integer({ min: 0, max: 2 }),
      },
      { requiredKeys: [] },
    );
    const value = fc.constantFrom(0, 1, 2, 2.5, 3, 4, '', 'a', 'ab');
    const args = fc.record({ a: value, b: value, c: value }, { requiredKeys: [] });
    let narrowings = 0;
    fc.assert(
      fc.property(schema, schema, fc.array(args, { maxLength: 20 }), (one, other, calls) => {
        const [before, after] = [one, { ...one, ...other }].map((raw) =>
          normaliseSchema(JSON.parse(JSON.stringify(raw))),
        );
        if (before === undefined || after === undefined) return;
        const changes = compareSchemas(before, after, '');
        if (!changes.every(({ kind }) => kind === 'narrowed')) return;
        narrowings++;
        for (const call of calls) {
          if (argsValidator(after)(call) === undefined) {
            expect(argsValidator(before)(call)).toBeUndefined();
          }
        }
      }),
      { numRuns: 6_000 },
    );
    expect(narrowings).toBeGreaterThan(100);
  });
});

describe('the approval status of a tool whose manifest is registered', () => {
  const material = classifyDrift(
    manifestOf({ description: 'a' }),
    manifestOf({ description: 'b' }),
  );
  const narrower = classifyDrift(
    manifestOf({ inputSchema: {} }),
    manifestOf({ inputSchema: { type: 'object' } }),
  );
  const standing = { manifestHash: 'h1', approvedHash: 'h1', approvalStatus: 'approved' } as const;

  it.each(['low', 'medium'] as const)(
    'is approved after the first manifest with the risk %s',
    (riskTier) => {
      expect(nextStatus({ hash: 'h1', riskTier, drifts: [] })).toEqual({
        approvalStatus: 'approved',
        approvedHash: 'h1',
        driftReason: undefined,
      });
    },
  );

  it.each(['high', 'critical'] as const)(
    'is pending after the first manifest with the risk %s',
    (riskTier) => {
      expect(nextStatus({ hash: 'h1', riskTier, drifts: [] })).toMatchObject({
        approvalStatus: 'pending_approval',
        approvedHash: undefined,
      });
    },
  );

  it('remains pending if a new manifest declares a lower risk', () => {
    const waiting = { manifestHash: 'h1', approvalStatus: 'pending_approval' } as const;
    expect(
      nextStatus({ hash: 'h2', riskTier: 'low', standing: waiting, drifts: [] }),
    ).toMatchObject({
      approvalStatus: 'pending_approval',
    });
  });

  it('becomes reapproval_required after material drift, and the approved hash stays the same', () => {
    expect(nextStatus({ hash: 'h2', riskTier: 'low', standing, drifts: material })).toEqual({
      approvalStatus: 'reapproval_required',
      approvedHash: 'h1',
      driftReason: 'tool.description_changed',
    });
  });

  it('remains approved if the schema was only narrowed', () => {
    expect(nextStatus({ hash: 'h2', riskTier: 'low', standing, drifts: narrower })).toMatchObject({
      approvalStatus: 'approved',
      approvedHash: 'h2',
    });
  });

  it('becomes approved if the tool returns to the approved version', () => {
    const drifted = {
      ...standing,
      manifestHash: 'h2',
      approvalStatus: 'reapproval_required',
    } as const;
    expect(
      nextStatus({ hash: 'h1', riskTier: 'low', standing: drifted, drifts: [] }),
    ).toMatchObject({
      approvalStatus: 'approved',
    });
  });

  it('remains rejected if the same manifest is registered again, and becomes pending if a different manifest is registered', () => {
    const rejected = { manifestHash: 'h1', approvalStatus: 'rejected' } as const;
    const again = (hash: string) =>
      nextStatus({ hash, riskTier: 'low', standing: rejected, drifts: [] }).approvalStatus;
    expect(again('h1')).toBe('rejected');
    expect(again('h2')).toBe('pending_approval');
  });
});
