import { type Rounds, startRounds } from '../../platform/scheduling/rounds.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { headPosition } from '../reading/read-ledger.ts';
import { readVerification } from './verification-state.ts';
import { noteVerified, reportFailure, verifyChain } from './verify-chain.ts';
import { verifyRows } from './verify-rows.ts';

const hourMs = 3_600_000;
/** Interval at which the due verifications are determined. */
const roundMs = 30_000;

/**
 * For each tenant, the time at which this process first left a due verification to another replica.
 */
type Left = Map<string, number>;

/** Verifies every tenant's ledger periodically. */
export function startSelfVerification(services: LedgerServices, intervalMs = roundMs): Rounds {
  const left: Left = new Map();
  return startRounds(
    () =>
      verifyDue(services, left).catch((err: unknown) =>
        services.log.warn({ err }, 'ledgers could not be verified'),
      ),
    intervalMs,
  );
}

/** Verifies the due ledgers one after another. Every replica may run this at the same time. */
export async function verifyDue(services: LedgerServices, left: Left = new Map()): Promise<void> {
  const { rows } = await services.pool.query<{ tenant_id: string }>(
    'SELECT tenant_id FROM evidence_head ORDER BY tenant_id',
  );
  for (const { tenant_id: tenantId } of rows) {
    // A ledger that cannot be read must not prevent the verification of the others.
    await verifyIfDue(services, tenantId, left).catch((err: unknown) =>
      services.log.warn({ err, tenantId }, 'a ledger could not be verified'),
    );
  }
}

async function verifyIfDue(services: LedgerServices, tenantId: string, left: Left): Promise<void> {
  const { config, clock, pool } = services;
  const state = await readVerification(services, tenantId);
  const nowMs = clock.now();
  const isWholeDue = nowMs - state.wholeAtMs >= config.verifyWholeHours * hourMs;
  // Only a verification of the whole ledger can clear a known problem.
  const isDue = state.problem === null && nowMs - state.verifiedAtMs >= config.verifyMs;
  if (!isWholeDue && !isDue) {
    left.delete(tenantId);
    return;
  }
  if (!(await takeTurn(services, tenantId, left))) return;
  const position = await headPosition(pool, tenantId);
  if (isWholeDue || position < state.upTo.tree.size) {
    await verifyChain(services, tenantId, { isPatient: true });
    return;
  }
  const from = state.upTo;
  if (position === from.tree.size) {
    await noteVerified(services, tenantId, { upTo: from, problem: null, isWhole: false });
    return;
  }
  const { report, upTo } = await verifyRows(services, { tenantId, from, isPatient: true });
  await reportFailure(services, tenantId, report);
  await noteVerified(services, tenantId, { upTo, problem: report.problem, isWhole: false });
}

/**
 * Returns whether this replica verifies; one replica does so per interval. If that replica crashes,
 * another one verifies in the next interval. After two intervals without a verification, every
 * replica ignores the bus, because otherwise a writer in Redis could prevent all verification.
 */
async function takeTurn(
  { bus, clock, config: { verifyMs } }: LedgerServices,
  tenantId: string,
  left: Left,
): Promise<boolean> {
  const nowMs = clock.now();
  const turn = `verification:${Math.floor(nowMs / verifyMs)}`;
  const claimed = await bus.claim(tenantId, turn, 2 * verifyMs).catch(() => undefined);
  const leftAtMs = left.get(tenantId) ?? nowMs;
  if (claimed?.status === 'taken' && nowMs - leftAtMs < 2 * verifyMs) {
    left.set(tenantId, leftAtMs);
    return false;
  }
  left.delete(tenantId);
  return true;
}
