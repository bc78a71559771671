import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import { killSwitchRecordOf } from './kill-switch-record.ts';

/** The tenant's kill switches, newest first: those in force, or all that ever were. */
export async function listKillSwitches(
  { db, clock, guard }: Pick<Services, 'db' | 'clock' | 'guard'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitchRecord[]> {
  const nowMs = clock.now();
  const inForce = {
    disarmedAt: null,
    OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
  };
  const rows = await db.killSwitch.findMany({
    where: { tenantId, ...(status === 'armed' ? inForce : {}) },
    orderBy: [{ armedAt: 'desc' }, { id: 'desc' }],
    take: limit,
  });
  const ours = rows.filter((row) => guard.holds('kill_switch', row));
  return ours.map((row) => killSwitchRecordOf(row, nowMs));
}
