import type { Services } from '../core/services.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { queryOn } from './active-versions.ts';
import { findMissing } from './find-missing.ts';

type Deps = Pick<Services, 'db' | 'pool' | 'clock' | 'guard' | 'vault' | 'log'>;

/**
 * Maximum time until the sweep detects a row that was deactivated with SQL, if no decision reads
 * the row.
 */
const everyMs = 10_000;

/**
 * Checks periodically for tampering that decisions cannot notice, such as a policy or a binding
 * that was deactivated with SQL. Until the row is restored, the control plane makes no decisions
 * and publishes nothing for its tenant.
 */
export async function startIntegritySweep(services: Deps): Promise<Rounds> {
  const round = () =>
    sweepRows(services).catch((err: unknown) => {
      services.log.warn({ err }, 'rows that give authority could not be looked through');
    });
  await round();
  return startRounds(round, everyMs);
}

export async function sweepRows({
  db,
  pool,
  clock,
  guard,
  vault,
}: Omit<Deps, 'log'>): Promise<void> {
  const deps = { db, query: queryOn(pool), guard, vault };
  const { suspects, armed } = await findMissing(deps, clock.now());
  guard.suspect(suspects, armed);
}
