import type { Services } from '../services.ts';
import { expireApprovals } from './expire-approvals.ts';

const everyMs = 30_000;

/**
 * Expires overdue approvals of all tenants now and then, so that who waits hears of it. Reading
 * and using an approval check its time themselves; nothing depends on the sweep being in time.
 */
export function startExpirySweep(services: Services): { close(): Promise<void> } {
  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(() => sweep(services));
  }, everyMs);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await running;
    },
  };
}

async function sweep(services: Services): Promise<void> {
  try {
    const tenants = await services.db.tenant.findMany({ select: { id: true } });
    for (const { id } of tenants) await expireApprovals(services, id);
  } catch (error) {
    services.log.warn(
      { err: error },
      'overdue approvals could not be expired; the next sweep tries again',
    );
  }
}
