/** A resource in its parts: `type:id` at the first colon; without one there is an id only. */
interface ParsedResource {
  readonly type?: string;
  readonly id: string;
}

export function parseResource(resource: string): ParsedResource {
  const colon = resource.indexOf(':');
  if (colon <= 0) return { id: resource };
  return { type: resource.slice(0, colon), id: resource.slice(colon + 1) };
}
