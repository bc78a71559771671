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
  /** Checkpoints that are not stored with the ledger; the caller has verified their signatures. */
  readonly checkpoints?: readonly Checkpoint[] | undefined;
  /** Called after the last page. */
  end(): LedgerEnd;
  /** Reports how far the rows were read, so that a later verification can start there. */
  reached?(upTo: VerifiedUpTo): void;
}

/** A check that runs after the rows up to a position. */
interface ScheduledCheck {
  readonly position: number;
  check(): void;
}

/** Verifies a streamed ledger in constant memory. */
export async function verifyLedger(source: LedgerSource): Promise<VerificationReport> {
  const verifier = new LedgerVerifier(source);
  const given = new ScheduledChecks(
    (source.checkpoints ?? []).map((one) => ({
      position: one.position,
      check: () => verifier.checkpoint(one),
    })),
  );
  for await (const page of source.pages) {
    for (const start of page.starts ?? []) verifier.begin(start);
    const checks = scheduledChecks(verifier, page, source.signaturesFrom ?? 0);
    let left = rowsPerTurn;
    for (const row of page.rows) {
      checks.runBefore(row.position);
      given.runBefore(row.position);
      verifier.row(row);
      // Yields to the event loop, so that other requests and the next page can proceed.
      if (--left > 0) continue;
      await turn();
      left = rowsPerTurn;
    }
    checks.runBefore(Number.POSITIVE_INFINITY);
  }
  given.runBefore(Number.POSITIVE_INFINITY);
  source.reached?.(verifier.upTo);
  return verifier.finish(source.end());
}

function scheduledChecks(
  verifier: LedgerVerifier,
  { anchors, checkpoints = [] }: LedgerPage,
  signaturesFrom: number,
): ScheduledChecks {
  return new ScheduledChecks([
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

class ScheduledChecks {
  readonly #checks: readonly ScheduledCheck[];
  #next = 0;

  constructor(checks: readonly ScheduledCheck[]) {
    this.#checks = checks.toSorted((a, b) => a.position - b.position);
  }

  /** Runs the checks that are due before the row at this position. */
  runBefore(position: number): void {
    for (let due = this.#checks[this.#next]; due && due.position < position; ) {
      due.check();
      this.#next++;
      due = this.#checks[this.#next];
    }
  }
}
