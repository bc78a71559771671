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

/** Signatures of older batches add nothing: the newest ones cover the rows of all of them. */
const signaturesMax = 1_000;
/** As long as more than this was sealed meanwhile, catch up before looking at the end. */
const tailRowsMax = 500;
/** A verification that nobody waits for leaves this many times as long to others as it takes. */
const patience = 3;

interface Wanted {
  readonly tenantId: string;
  /** From outside, found genuine. */
  readonly checkpoints?: readonly Checkpoint[] | undefined;
  /** Undefined: the whole ledger. */
  readonly from?: VerifiedUpTo | undefined;
  /** Nobody waits for it. */
  readonly isPatient?: boolean | undefined;
}

/** Verifies a tenant's ledger, or what was sealed after an earlier verification, without leaving a trace. */
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
      // Rows before the first position are shown by some filters, so they must be seen here.
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
