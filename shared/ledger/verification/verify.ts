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
  /** Pages in position order, of any size. */
  readonly pages: AsyncIterable<LedgerPage>;
  /** Skips signatures of anchors before this position, because later ones cover the same rows. */
  readonly signaturesFrom?: number;
  /** Checkpoints from outside; the caller has verified their signatures. */
  readonly checkpoints?: readonly Checkpoint[] | undefined;
  /** Called after the last page. */
  end(): LedgerEnd;
  /** Reports how far the rows were read, so that a later verification can start there. */
  reached?(upTo: VerifiedUpTo): void;
}

/** Work that is due after the rows up to a position. */
interface Due {
  readonly position: number;
  check(): void;
}

/** Verifies a streamed ledger in constant memory. */
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
      // Yields to the event loop, so that other requests and the next page can proceed.
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

  /** Runs the work that is due before the row at this position. */
  before(position: number): void {
    for (let due = this.#dues[this.#next]; due && due.position < position; ) {
      due.check();
      this.#next++;
      due = this.#dues[this.#next];
    }
  }
}
