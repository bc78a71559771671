import { type Rounds, startRounds } from '../../platform/scheduling/rounds.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { checkpointNow } from '../tree/checkpoint.ts';
import { WitnessRound } from './witness-round.ts';

const intervalMs = 15_000;

/**
 * Creates checkpoints of ledgers that have enough new events or whose interval has passed, and has
 * witnesses cosign the checkpoints. Several replicas may run it at the same time. A failed round is
 * logged, and the next round retries.
 */
export function startCheckpointRounds(services: LedgerServices): Rounds {
  const witnesses = new WitnessRound(services);
  return startRounds(async () => {
    try {
      await checkpointDue(services);
      await witnesses.run();
    } catch (err) {
      services.log.warn({ err }, 'could not read the ledgers that are due for a checkpoint');
    }
  }, intervalMs);
}

/**
 * Creates a checkpoint for every tenant whose ledger is due. A failure for one tenant does not
 * affect the others.
 */
export async function checkpointDue(services: LedgerServices): Promise<void> {
  const { pool, clock, config, log } = services;
  const before = new Date(clock.now() - config.checkpointIntervalMs).toISOString();
  const { rows } = await pool.query<{ tenant_id: string }>(dueStatement, [
    config.checkpointEvents,
    before,
  ]);
  for (const { tenant_id: tenantId } of rows) {
    try {
      await checkpointNow(services, tenantId);
    } catch (err) {
      log.error({ err, tenantId }, 'could not create a checkpoint');
    }
  }
}

const dueStatement = `
SELECT head.tenant_id
  FROM evidence_head AS head LEFT JOIN LATERAL (
    SELECT size, created_at FROM evidence_checkpoint AS made
     WHERE made.tenant_id = head.tenant_id ORDER BY size DESC LIMIT 1) AS newest ON true
 WHERE head.position > coalesce(newest.size, 0)
   AND (newest.size IS NULL OR head.position - newest.size >= $1 OR newest.created_at <= $2)`;
