import { setImmediate as turn } from 'node:timers/promises';
import type {
  Checkpoint,
  LedgerEnd,
  LedgerPage,
  Verification,
  VerifiedUpTo,
} from './ledger-source.ts';
import { LedgerVerifier } from './ledger-verifier.ts';
import type { VerificationReport } from './problem.ts';

const rowsPerTurn = 200;

interface LedgerSource extends Verification {
  /** In position order, of any size. */
  readonly pages: AsyncIterable<LedgerPage>;
  /** Signatures of anchors before this position are not verified: later ones cover the same rows. */
  readonly signaturesFrom?: number;
  /** From outside, found genuine by whoever gives them. */
  readonly checkpoints?: readonly Checkpoint[] | undefined;
  /** Asked once the pages are read. */
  end(): LedgerEnd;
  /** Told how far the rows were read, so that a later verification can begin there. */
  reached?(upTo: VerifiedUpTo): void;
}

/** Something to do once the rows up to a position were read. */
interface Due {
  readonly position: number;
  check(): void;
}

/** Verifies a ledger from a stream; memory stays flat whatever its size. */
export async function verifyLedger(source: LedgerSource): Promise<VerificationReport> {
  const verifier = new LedgerVerifier(source);
  const given = new Dues(
    (source.checkpoints ?? []).map((one) => ({
      position: one.position,
      check: () => verifier.checkpoint(one),
    })),
  );
  for await (const page of source.pages) {
    for (const start of page.starts ?? []) verifier.begin(start);
    const said = duesOf(verifier, page, source.signaturesFrom ?? 0);
    let left = rowsPerTurn;
    for (const row of page.rows) {
      said.before(row.position);
      given.before(row.position);
      verifier.row(row);
      // Others get their turn, and what brings the next page goes on.
      if (--left > 0) continue;
      await turn();
      left = rowsPerTurn;
    }
    said.before(Number.POSITIVE_INFINITY);
  }
  given.before(Number.POSITIVE_INFINITY);
  source.reached?.(verifier.upTo);
  return verifier.finish(source.end());
}

function duesOf(
  verifier: LedgerVerifier,
  { anchors, checkpoints = [] }: LedgerPage,
  signaturesFrom: number,
): Dues {
  return new Dues([
    ...anchors.map((anchor) => ({
      position: anchor.position,
      check: () => verifier.anchor(anchor, anchor.position >= signaturesFrom),
    })),
    ...checkpoints.map(({ position, checkpoint }) => ({
      position,
      check: () =>
        checkpoint === undefined
          ? verifier.forgedCheckpoint(position)
          : verifier.checkpoint(checkpoint),
    })),
  ]);
}

class Dues {
  readonly #dues: readonly Due[];
  #next = 0;

  constructor(dues: readonly Due[]) {
    this.#dues = dues.toSorted((a, b) => a.position - b.position);
  }

  /** Does what is due before the row at this position. */
  before(position: number): void {
    for (let due = this.#dues[this.#next]; due && due.position < position; ) {
      due.check();
      this.#next++;
      due = this.#dues[this.#next];
    }
  }
}
