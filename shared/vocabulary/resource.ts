/**
 * A parsed resource: `type:id`, split at the first colon. A resource without a type has an id only.
 */
interface ParsedResource {
  readonly type?: string;
  readonly id: string;
}

// On a host without bindings, the resource is a path that the agent chose. A colon in such a path
// is not a separator.
const partOfPath = /[/\\%]/;

/** The text before the first colon is a type unless it is empty or part of a path or URI. */
export function parseResource(resource: string): ParsedResource {
  const colon = resource.indexOf(':');
  if (colon <= 0) return { id: resource };
  const type = resource.slice(0, colon);
  return partOfPath.test(type) ? { id: resource } : { type, id: resource.slice(colon + 1) };
}
