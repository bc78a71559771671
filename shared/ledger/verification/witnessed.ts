import type { LinkedRow, OpenProblem } from './chain-check.ts';

/** More chains than this are not told apart in a message. */
const chainsMax = 5;

/**
 * What checkpoints say of a ledger, row by row: how far one fits, and what lies between that and
 * the first that does not. A checkpoint says that rows were rewritten, not which: as near as it
 * can be told is the stretch behind the last one that fits.
 */
export class Witnessed {
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

  /** There is a checkpoint of a position that was not reached. */
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
      message: `the rows ${stretch} (of ${which}) are not those of the checkpoint of ${position}`,
    };
  }

  rolledBack(position: number): OpenProblem | undefined {
    if (this.#endsAt <= position) return undefined;
    return {
      kind: 'rolled_back',
      position: position + 1,
      chain_id: null,
      message: `the ledger ends at ${position}, and there is a checkpoint of ${this.#endsAt}`,
    };
  }
}
