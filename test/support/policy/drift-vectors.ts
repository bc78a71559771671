import type { JsonObject } from '../../../shared/base/json.ts';
import { normaliseSchema } from '../../../shared/manifest/normalise.ts';
import { schemaProblem } from '../../../shared/manifest/validator.ts';
import { loadVectors } from '../../shared/load-vectors.ts';

/** Two manifests of one tool, and how they differ: `[class, path, material]` each. */
export interface DriftVector {
  readonly name: string;
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly drifts: readonly (readonly [string, string, boolean])[];
}

interface SchemaVector extends Omit<DriftVector, 'drifts'> {
  readonly changes: readonly (readonly [kind: string, path: string])[];
}

/** All golden drifts, those of input schemas as manifests too. */
export function driftVectors(): readonly DriftVector[] {
  const schemas = loadVectors<SchemaVector>('drift/input-schema.yaml').map(
    ({ name, before, after, changes }): DriftVector => ({
      name: `input schema: ${name}`,
      before: { inputSchema: before },
      after: { inputSchema: after },
      drifts: changes.map(([kind, path]) => [
        kind === 'described' ? 'description_changed' : `input_schema_${kind}`,
        `/inputSchema${path}`,
        kind !== 'narrowed',
      ]),
    }),
  );
  return [...loadVectors<DriftVector>('drift/manifest.yaml'), ...schemas];
}

/** Whether a tool can be registered so: arguments cannot be held against a schema that is none. */
export function isRegistrable({ inputSchema }: JsonObject): boolean {
  return (
    inputSchema === undefined ||
    schemaProblem(normaliseSchema(inputSchema as JsonObject)) === undefined
  );
}
