import { emptyRoot } from '../../../shared/ledger/merkle.ts';

/** Position that a ledger reached, and the root of its tree there: `sha256:<hex>`. */
export interface End {
  readonly position: number;
  readonly treeRoot: string;
}

interface Found extends End {
  /** Root in the signed head of the confirmed position; undefined if no batch ended there. */
  readonly confirmedRoot: string | undefined;
}

export const noEnd: End = { position: 0, treeRoot: `sha256:${emptyRoot.toString('hex')}` };

/**
 * The highest position that this process saw in one tenant's ledger. A rolled-back database is
 * consistent and signed, so only a comparison with this position detects the rollback. Therefore
 * this object is kept when other cached state is dropped.
 */
export class ConfirmedEnd {
  #end = noEnd;
  #isLost = false;

  get position(): number {
    return this.#end.position;
  }

  /** True if the ledger did not contain the confirmed end when it was last read. */
  get isLost(): boolean {
    return this.#isLost;
  }

  confirm(end: End): void {
    this.#end = end;
    this.#isLost = false;
  }

  isHeldBy({ position, treeRoot, confirmedRoot }: Found): boolean {
    if (position <= this.#end.position) {
      return position === this.#end.position && treeRoot === this.#end.treeRoot;
    }
    return this.#end.position === 0 || confirmedRoot === this.#end.treeRoot;
  }

  /**
   * Marks the confirmed end as lost. Returns it at the first call, and undefined at later calls.
   */
  markLost(): End | undefined {
    if (this.#isLost) return undefined;
    this.#isLost = true;
    return this.#end;
  }

  /** Records that an operator accepted the loss of everything up to a position. */
  acceptLoss(upTo: number): void {
    if (this.#isLost && this.#end.position <= upTo) this.confirm(noEnd);
  }
}
