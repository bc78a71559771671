import { type Rounds, startRounds } from '../../platform/scheduling/rounds.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { headPosition } from '../reading/read-ledger.ts';
import { readVerification } from './verification-state.ts';
import { noteVerified, reportFailure, verifyChain } from './verify-chain.ts';
import { verifyRows } from './verify-rows.ts';

const hourMs = 3_600_000;
/** How often it is looked what is due. */
const roundMs = 30_000;

/** Verifies every tenant's ledger again and again, whether anybody asks or not. */
export function startSelfVerification(services: LedgerServices, intervalMs = roundMs): Rounds {
  return startRounds(
    () =>
      verifyDue(services).catch((err: unknown) =>
        services.log.warn({ err }, 'ledgers could not be verified'),
      ),
    intervalMs,
  );
}

/** One tenant after another: nobody waits for it. Every replica may do so at the same time. */
export async function verifyDue(services: LedgerServices): Promise<void> {
  const { rows } = await services.pool.query<{ tenant_id: string }>(
    'SELECT tenant_id FROM evidence_head ORDER BY tenant_id',
  );
  for (const { tenant_id: tenantId } of rows) await verifyIfDue(services, tenantId);
}

async function verifyIfDue(services: LedgerServices, tenantId: string): Promise<void> {
  const { config, clock, bus, pool } = services;
  const state = await readVerification(services, tenantId);
  const nowMs = clock.now();
  const isWholeDue = nowMs - state.wholeAtMs >= config.verifyWholeHours * hourMs;
  // What is known to be wrong stays so until the whole was read again.
  const isDue = state.problem === null && nowMs - state.verifiedAtMs >= config.verifyMs;
  if (!isWholeDue && !isDue) return;
  // One replica, once an interval: whoever dies over it leaves it to whoever comes in the next.
  const turn = `verification:${Math.floor(nowMs / config.verifyMs)}`;
  const claimed = await bus.claim(tenantId, turn, 2 * config.verifyMs);
  if (claimed.status === 'taken') return;
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
