import { emptyRoot } from '../../../shared/ledger/merkle.ts';

/** How far a ledger reached, and the root of its tree there: `sha256:<hex>`. */
export interface End {
  readonly position: number;
  readonly treeRoot: string;
}

interface Found extends End {
  /** What the database says was signed at the confirmed position; undefined: nothing. */
  readonly confirmedRoot: string | undefined;
}

export const noEnd: End = { position: 0, treeRoot: `sha256:${emptyRoot.toString('hex')}` };

/**
 * The furthest that this process saw one tenant's ledger reach. A database that was set back to an
 * older state is whole and signed; only who remembers can tell. It outlives what else is known.
 */
export class ConfirmedEnd {
  #end = noEnd;
  #isLost = false;

  get position(): number {
    return this.#end.position;
  }

  /** Whether a ledger was found that does not hold the confirmed end, and nothing since has put it right. */
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

  /** What is lost, where that was not known yet. */
  markLost(): End | undefined {
    if (this.#isLost) return undefined;
    this.#isLost = true;
    return this.#end;
  }

  /** Somebody accepted the loss of everything up to a position. */
  acceptLoss(upTo: number): void {
    if (this.#isLost && this.#end.position <= upTo) this.confirm(noEnd);
  }
}
