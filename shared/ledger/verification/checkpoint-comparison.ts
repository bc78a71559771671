import type { LinkedRow, OpenProblem } from './chain-check.ts';

/** Maximum number of chains that a message names. */
const chainsMax = 5;

/**
 * Compares checkpoints with the ledger while rows are read. A differing checkpoint shows that rows
 * were rewritten, but not which rows. The closest estimate is the range after the last matching
 * checkpoint.
 */
export class CheckpointComparison {
  #fitsUpTo: number;
  #endsAt = 0;
  readonly #chainIds = new Set<string>();

  constructor(fitsUpTo: number) {
    this.#fitsUpTo = fitsUpTo;
  }

  row({ chainId }: Pick<LinkedRow, 'chainId'>): void {
    if (this.#chainIds.size <= chainsMax) this.#chainIds.add(chainId);
  }

  fits(position: number): void {
    this.#fitsUpTo = position;
    this.#chainIds.clear();
  }

  /** Records a checkpoint at a position that the rows did not reach. */
  expectEnd(position: number): void {
    this.#endsAt = Math.max(this.#endsAt, position);
  }

  rewritten(position: number): OpenProblem {
    const chains = [...this.#chainIds];
    const which = chains.length > chainsMax ? 'many chains' : chains.join(', ');
    const stretch = `${this.#fitsUpTo + 1} to ${position}`;
    return {
      kind: 'rewritten',
      position: this.#fitsUpTo + 1,
      chain_id: chains.length === 1 ? (chains[0] ?? null) : null,
      message: `the rows ${stretch} (of ${which}) differ from those of the checkpoint at ${position}`,
    };
  }

  rolledBack(position: number): OpenProblem | undefined {
    if (this.#endsAt <= position) return undefined;
    return {
      kind: 'rolled_back',
      position: position + 1,
      chain_id: null,
      message: `the ledger ends at ${position}, but a checkpoint at ${this.#endsAt} exists`,
    };
  }
}
