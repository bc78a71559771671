import type { Services } from '../services.ts';
import { expireApprovals } from './expire-approvals.ts';
import { settleEventHashes } from './settle-event-hashes.ts';

const intervalMs = 15_000;

interface ExpirySweep {
  /** Resolves when no round is under way any more. */
  close(): Promise<void>;
}

/**
 * Expires what nobody decided in time without waiting for somebody to look, and settles
 * decisions whose sealing had to wait. Rounds never overlap; a failed one is logged and the next
 * one tries again.
 */
export function startExpirySweep(services: Services): ExpirySweep {
  let stopped = false;
  let round: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const schedule = () => {
    if (stopped) return;
    timer = setTimeout(() => {
      round = sweep(services).finally(schedule);
    }, intervalMs);
    timer.unref();
  };
  schedule();
  return {
    async close() {
      stopped = true;
      clearTimeout(timer);
      await round;
    },
  };
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
