/** A resource in its parts: `type:id` at the first colon; without a type there is an id only. */
interface ParsedResource {
  readonly type?: string;
  readonly id: string;
}

// A path on a host without bindings is the agent's own text: a colon in it separates nothing.
const partOfPath = /[/\\%]/;

/** Text before the first colon is a type unless it is empty or part of a path or URI. */
export function parseResource(resource: string): ParsedResource {
  const colon = resource.indexOf(':');
  if (colon <= 0) return { id: resource };
  const type = resource.slice(0, colon);
  return partOfPath.test(type) ? { id: resource } : { type, id: resource.slice(colon + 1) };
}
