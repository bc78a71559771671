import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { type PublicJwk, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import type {
  Checkpoint,
  LedgerPage,
  VerifiedUpTo,
} from '../../../shared/ledger/verification/ledger-source.ts';
import type { VerificationReport } from '../../../shared/ledger/verification/problem.ts';
import { verifyLedger } from '../../../shared/ledger/verification/verify.ts';
import type { LedgerServices } from '../ledger-services.ts';
import {
  type BesideReader,
  headPosition,
  type LedgerEnd,
  newestHeadsFrom,
  readPages,
  readTail,
} from '../reading/read-ledger.ts';
import { readStarts, readStoredCheckpoints } from './read-beside.ts';

/**
 * Verification checks the signatures of only this many batches, the newest ones. Their signatures
 * cover the rows of all older batches.
 */
const signaturesMax = 1_000;
/** Maximum number of rows that are left for the final snapshot; earlier rows are read before it. */
const tailRowsMax = 500;
/**
 * A background verification pauses after each page, for this multiple of the page's working time.
 */
const patience = 3;

interface Wanted {
  readonly tenantId: string;
  /** Verified checkpoints that the ledger must contain. */
  readonly checkpoints?: readonly Checkpoint[] | undefined;
  /**
   * End of an earlier verification, at which this verification starts; undefined: verify the whole
   * ledger.
   */
  readonly from?: VerifiedUpTo | undefined;
  /** True for a background verification, which pauses between pages. */
  readonly isPatient?: boolean | undefined;
}

/**
 * Verifies a tenant's whole ledger, or only the rows after an earlier verification. Records
 * nothing.
 */
export async function verifyRows(
  { pool, signingKeys }: Pick<LedgerServices, 'pool' | 'signingKeys'>,
  wanted: Wanted,
): Promise<{ readonly report: VerificationReport; readonly upTo: VerifiedUpTo | undefined }> {
  const { tenantId, checkpoints, from } = wanted;
  const keys = await signingKeys.publicKeys(tenantId, 'checkpoint');
  const ledger = readLedger(pool, keys, wanted);
  let upTo: VerifiedUpTo | undefined;
  const report = await verifyLedger({
    tenantId,
    from,
    checkpoints: checkpoints?.filter(({ position }) => position > (from?.tree.size ?? 0)),
    keys: verificationKeys(keys),
    pages: ledger.pages(),
    signaturesFrom: await newestHeadsFrom(pool, tenantId, signaturesMax),
    end: ledger.end,
    reached: (reached) => {
      upTo = reached;
    },
  });
  return { report, upTo };
}

function readLedger(pool: Pool, keys: readonly PublicJwk[], wanted: Wanted) {
  const { tenantId, from, isPatient = false } = wanted;
  const start = from?.tree.size ?? 0;
  const readBeside = besideReader(tenantId, keys, start);
  let end: LedgerEnd = { head: undefined, chainEnds: [] };
  return {
    async *pages(): AsyncGenerator<LedgerPage> {
      // Includes rows with a position below 1: some filters would show such rows, so they must be
      // verified, too.
      let after = start === 0 ? Number.MIN_SAFE_INTEGER : start;
      for (
        let upTo = await headPosition(pool, tenantId);
        upTo - Math.max(after, 0) > tailRowsMax;
      ) {
        for await (const page of readPages(pool, tenantId, { after, upTo }, readBeside)) {
          const begun = performance.now();
          yield page;
          if (isPatient) await delay((performance.now() - begun) * patience);
        }
        after = upTo;
        upTo = await headPosition(pool, tenantId);
      }
      end = yield* readTail(pool, tenantId, after, readBeside);
    },
    end: () => end,
  };
}

function besideReader(tenantId: string, keys: readonly PublicJwk[], start: number): BesideReader {
  const known = new Set<string>();
  return async (connection, { rows, after, upTo }) => ({
    checkpoints: await readStoredCheckpoints(connection, { tenantId, keys }, { after, upTo }),
    starts:
      start === 0 ? [] : await readStarts(connection, { tenantId, before: start }, { rows, known }),
  });
}
