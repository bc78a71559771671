/** More tools than anyone lists in earnest. */
const toolsMax = 2_000;

/**
 * Names of tools that servers made up, at most so many of each server: the oldest makes room. So
 * a server that lists ever new names costs no more memory, and makes no other's be forgotten.
 */
export class BoundedNames {
  readonly #max: number;
  readonly #servers = new Map<string, Set<string>>();

  constructor(max = toolsMax) {
    this.#max = max;
  }

  has(tool: string): boolean {
    return this.#servers.get(serverOf(tool))?.has(tool) ?? false;
  }

  /** True when one more name of this tool's server would make another be forgotten. */
  isFull(tool: string): boolean {
    return (this.#servers.get(serverOf(tool))?.size ?? 0) >= this.#max;
  }

  add(tool: string): void {
    const server = serverOf(tool);
    const names = this.#servers.get(server) ?? new Set();
    this.#servers.set(server, names);
    names.delete(tool);
    if (names.size >= this.#max) names.delete(names.values().next().value ?? '');
    names.add(tool);
  }

  clear(): void {
    this.#servers.clear();
  }

  delete(tool: string): void {
    this.#servers.get(serverOf(tool))?.delete(tool);
  }
}

/** A server that never lists a tool twice alike is not listened to for ever. */
const formsMax = 8;

/** Which forms of registered tools were reported since their approval. */
export class ReportedForms {
  readonly #tools = new Map<string, { readonly approved: string; readonly forms: Set<string> }>();

  /** True once for each form, and for the first few of one approved form only. */
  isNew(tool: string, { approved, observed }: Record<'approved' | 'observed', string>): boolean {
    const known = this.#tools.get(tool);
    const entry = known?.approved === approved ? known : { approved, forms: new Set<string>() };
    if (entry.forms.has(observed) || entry.forms.size >= formsMax) return false;
    entry.forms.add(observed);
    this.#tools.set(tool, entry);
    return true;
  }
}

/** `mcp.<server>.` of a tool's id: the name of a server has no dot. Empty for any other tool. */
export function serverOf(tool: string): string {
  return /^mcp\.[^.]*\./.exec(tool)?.[0] ?? '';
}
