import type { JsonObject, JsonValue } from '../base/json.ts';
import { canonicalJson } from '../crypto/jcs.ts';

/** An object's own member, never an inherited one such as `constructor`. */
export function memberOf(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** The names of members that differ between two objects, sorted. */
export function changedMembers(one: JsonObject, other: JsonObject): readonly string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])]
    .filter((name) => !sameValue(memberOf(one, name), memberOf(other, name)))
    .sort();
}

function sameValue(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return canonicalJson(one) === canonicalJson(other);
}

/** One step of a JSON pointer (RFC 6901), with its slash. */
export function pointerStep(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
