import type { Services } from '../core/services.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { expireApprovals } from './expire-approvals.ts';
import { settleEventHashes } from './settle-event-hashes.ts';

const intervalMs = 15_000;

/**
 * Expires what nobody decided in time without waiting for somebody to look, and settles
 * decisions whose sealing had to wait. A failed round is logged and the next one tries again.
 */
export function startExpirySweep(services: Services): Rounds {
  return startRounds(() => sweep(services), intervalMs);
}

async function sweep(services: Services): Promise<void> {
  try {
    const tenants = await services.db.tenant.findMany({ select: { id: true } });
    for (const { id } of tenants) {
      await expireApprovals(services, id);
      await settleEventHashes(services, id);
    }
  } catch (err) {
    services.log.error({ err }, 'overdue approvals could not be expired');
  }
}
