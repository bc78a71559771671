import { inclusionRanges, type LeafRange } from '../../../shared/ledger/merkle.ts';
import type { Queryable } from '../sealing/read-state.ts';
import { readRoots } from '../tree/nodes.ts';

/** Maximum number of cached subtree roots. Proofs of neighbouring events share most of them. */
const rootsMax = 100_000;

/** Computes inclusion proofs in one tree. Call it with positions in ascending order. */
export class InclusionProofs {
  readonly #connection: Queryable;
  readonly #tenantId: string;
  readonly #size: number;
  readonly #roots = new Map<string, string>();

  constructor(connection: Queryable, tenantId: string, size: number) {
    this.#connection = connection;
    this.#tenantId = tenantId;
    this.#size = size;
  }

  /** Returns the proof of each position, in base64. */
  async of(positions: readonly number[]): Promise<readonly (readonly string[])[]> {
    const paths = positions.map((position) => inclusionRanges(position - 1, this.#size));
    if (this.#roots.size > rootsMax) this.#roots.clear();
    await this.#load(paths.flat());
    return paths.map((path) => path.map((range) => this.#roots.get(nameOf(range)) ?? ''));
  }

  async #load(ranges: readonly LeafRange[]): Promise<void> {
    const missing = new Map(
      ranges
        .map((range) => [nameOf(range), range] as const)
        .filter(([name]) => !this.#roots.has(name)),
    );
    const roots = await readRoots(this.#connection, this.#tenantId, [...missing.values()]);
    for (const [at, name] of [...missing.keys()].entries()) {
      const root = roots[at];
      if (root !== undefined) this.#roots.set(name, root.toString('base64'));
    }
  }
}

function nameOf({ start, end }: LeafRange): string {
  return `${start}-${end}`;
}
