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
 * `sha256:<hex>` over the members that `tools/list` shows. Accepts a tool in wire form or a
 * normalised manifest. The caller sets `name` to the registered tool id (`mcp.<server>.<tool>`),
 * because a server sends the bare name. Throws `args.schema_invalid` if the value is not a tool.
 */
export function surfaceHash(tool: JsonObject): string {
  return sha256(canonicalJson(surfaceOf(tool)));
}

/**
 * The members that `tools/list` shows, without the name, as canonical JSON; a renamed tool has the
 * same form. Undefined for a tool that shows only a name, because all such tools would be equal.
 */
function formOf(tool: JsonObject): string | undefined {
  const shown = canonicalJson({ ...surfaceOf(tool), name: '' });
  return shown === blankSurface ? undefined : shown;
}

/** `sha256:<hex>` over `formOf`. */
export function formHash(tool: JsonObject): string | undefined {
  const form = formOf(tool);
  return form === undefined ? undefined : sha256(form);
}

/**
 * True if two tools differ only in name, which means that a tool was renamed. Two tools that show
 * only a name are different tools.
 */
export function sameButName(one: JsonObject, other: JsonObject): boolean {
  if (one.name === other.name) return false;
  const form = formOf(one);
  return form !== undefined && form === formOf(other);
}

const blankSurface = canonicalJson({ name: '' });

/** The members that `tools/list` shows, in normal form. */
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
