import type { Pool } from 'pg';
import { verificationKeys } from '../../shared/crypto/signing-key.ts';
import type { VerificationReport } from '../../shared/evidence/problem.ts';
import { type LedgerPage, verifyLedger } from '../../shared/evidence/verify.ts';
import { newEvent } from '../events.ts';
import type { Services } from '../services.ts';
import { ledgerChain } from './incident.ts';
import {
  headPosition,
  type LedgerEnd,
  newestHeadsFrom,
  readPages,
  readTail,
} from './read-ledger.ts';

/** Signatures of older batches add nothing: the newest ones cover the rows of all of them. */
const signaturesMax = 1_000;
/** As long as more than this was sealed meanwhile, catch up before looking at the end. */
const tailRowsMax = 500;

/**
 * Verifies a tenant's whole ledger from its canonical texts. A failure is an incident, sealed as
 * `chain_verification_failed`; the report is returned regardless of whether that succeeds.
 */
export async function verifyChain(
  services: Pick<Services, 'pool' | 'signingKeys' | 'ledger' | 'clock' | 'log'>,
  tenantId: string,
): Promise<VerificationReport> {
  const report = await verifyStored(services, tenantId);
  if (!report.ok) await recordFailure(services, tenantId, report);
  return report;
}

/** The report alone, without leaving a trace. */
export async function verifyStored(
  { pool, signingKeys }: Pick<Services, 'pool' | 'signingKeys'>,
  tenantId: string,
): Promise<VerificationReport> {
  const keys = verificationKeys(await signingKeys.publicKeys(tenantId, 'checkpoint'));
  const ledger = readLedger(pool, tenantId);
  return verifyLedger({
    tenantId,
    keys,
    pages: ledger.pages(),
    signaturesFrom: await newestHeadsFrom(pool, tenantId, signaturesMax),
    end: ledger.end,
  });
}

function readLedger(pool: Pool, tenantId: string) {
  let end: LedgerEnd = { head: undefined, chainEnds: [] };
  return {
    async *pages(): AsyncGenerator<LedgerPage> {
      let after = 0;
      for (let upTo = await headPosition(pool, tenantId); upTo - after > tailRowsMax; ) {
        yield* readPages(pool, tenantId, { after, upTo });
        after = upTo;
        upTo = await headPosition(pool, tenantId);
      }
      end = yield* readTail(pool, tenantId, after);
    },
    end: () => end,
  };
}

async function recordFailure(
  { ledger, clock, log }: Pick<Services, 'ledger' | 'clock' | 'log'>,
  tenantId: string,
  { problem, problems, events }: VerificationReport,
): Promise<void> {
  log.error({ tenantId, problem, problems: problems.length }, 'the ledger does not verify');
  try {
    const data = { events, problem: { ...problem }, problems: problems.length };
    const event = newEvent(
      { type: 'chain_verification_failed', chainId: ledgerChain, data },
      clock,
    );
    await ledger.seal(tenantId, event);
  } catch (error) {
    log.error({ error, tenantId }, 'the failed verification could not be recorded');
  }
}
