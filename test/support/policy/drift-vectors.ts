import type { JsonObject } from '../../../shared/base/json.ts';
import { normaliseSchema } from '../../../shared/manifest/normalise.ts';
import { schemaProblem } from '../../../shared/manifest/validator.ts';
import { loadVectors } from '../../shared/load-vectors.ts';

/** Two manifests of one tool and their differences, each as `[class, path, material]`. */
export interface DriftVector {
  readonly name: string;
  readonly before: JsonObject;
  readonly after: JsonObject;
  readonly drifts: readonly (readonly [string, string, boolean])[];
}

interface SchemaVector extends Omit<DriftVector, 'drifts'> {
  readonly changes: readonly (readonly [kind: string, path: string])[];
}

/** Returns all golden drift cases. Cases about input schemas are converted to manifests. */
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

/**
 * Returns whether a tool with this schema can be registered. With an invalid schema, arguments
 * could not be validated.
 */
export function isRegistrable({ inputSchema }: JsonObject): boolean {
  return (
    inputSchema === undefined ||
    schemaProblem(normaliseSchema(inputSchema as JsonObject)) === undefined
  );
}
