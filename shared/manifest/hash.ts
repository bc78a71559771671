import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import type { JsonObject } from '../json.ts';
import type { NormalisedManifest } from './manifest.ts';
import { parseManifest } from './normalise.ts';

/** `sha256:<hex>` over the JCS form of a normalised manifest. */
export function manifestHash(manifest: NormalisedManifest): string {
  return sha256(canonicalJson(manifest));
}

/**
 * `sha256:<hex>` over what `tools/list` shows of a tool. Takes a tool as it came over the wire or
 * a normalised manifest; `name` is the registered tool id (`mcp.<server>.<tool>`) in both cases,
 * so the caller puts it in place of the bare name that a server sends.
 * Throws `args.schema_invalid` for what is no tool.
 */
export function surfaceHash(tool: JsonObject): string {
  return sha256(canonicalJson(surfaceOf(tool)));
}

/**
 * True when two tools show the same but for their names: a tool that was renamed. Two tools that
 * show nothing but a name are not the same tool.
 */
export function sameButName(one: JsonObject, other: JsonObject): boolean {
  if (one.name === other.name) return false;
  const nameless = (tool: JsonObject) => canonicalJson({ ...surfaceOf(tool), name: '' });
  const shown = nameless(one);
  return shown !== blankSurface && shown === nameless(other);
}

const blankSurface = canonicalJson({ name: '' });

function surfaceOf(tool: JsonObject): JsonObject {
  const { name, title, description, inputSchema, outputSchema, annotations } = parseManifest({
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchema: tool.inputSchema,
    outputSchema: tool.outputSchema,
    annotations: tool.annotations,
  });
  return { name, title, description, inputSchema, outputSchema, annotations } as JsonObject;
}
