import type { JsonObject } from '../base/json.ts';
import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
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
 * What a tool shows but for its name, as canonical JSON: the same for a tool that was renamed.
 * Undefined for one that shows nothing but a name, which is like any other such.
 */
function formOf(tool: JsonObject): string | undefined {
  const shown = canonicalJson({ ...surfaceOf(tool), name: '' });
  return shown === blankSurface ? undefined : shown;
}

/** `sha256:<hex>` over that form. */
export function formHash(tool: JsonObject): string | undefined {
  const form = formOf(tool);
  return form === undefined ? undefined : sha256(form);
}

/**
 * True when two tools show the same but for their names: a tool that was renamed. Two tools that
 * show nothing but a name are not the same tool.
 */
export function sameButName(one: JsonObject, other: JsonObject): boolean {
  if (one.name === other.name) return false;
  const form = formOf(one);
  return form !== undefined && form === formOf(other);
}

const blankSurface = canonicalJson({ name: '' });

/** The members that `tools/list` shows, in their normal form. */
export function surfaceOf(tool: JsonObject): JsonObject {
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
