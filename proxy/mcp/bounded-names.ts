/** Maximum number of names per server: more tools than a genuine server lists. */
const toolsMax = 2_000;

/**
 * Names of tools that servers list. The number of names per server is limited: at the limit, a new
 * name displaces the server's oldest one. A server that keeps listing new names therefore neither
 * fills the memory nor displaces the names of other servers.
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

  /** True if adding another name for this tool's server would displace an older name. */
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

/** Limits the reports about a server that lists a tool differently each time. */
const formsMax = 8;

/** The forms of registered tools that were reported since the tools' approval. */
export class ReportedForms {
  readonly #tools = new Map<string, { readonly approved: string; readonly forms: Set<string> }>();

  /**
   * True if this form of the tool was not reported yet and the limit of reports since the tool's
   * approval is not reached.
   */
  isNew(tool: string, { approved, observed }: Record<'approved' | 'observed', string>): boolean {
    const known = this.#tools.get(tool);
    const entry = known?.approved === approved ? known : { approved, forms: new Set<string>() };
    if (entry.forms.has(observed) || entry.forms.size >= formsMax) return false;
    entry.forms.add(observed);
    this.#tools.set(tool, entry);
    return true;
  }
}

/** The prefix `mcp.<server>.` of a tool id (server names have no dot); empty for any other tool. */
export function serverOf(tool: string): string {
  return /^mcp\.[^.]*\./.exec(tool)?.[0] ?? '';
}
