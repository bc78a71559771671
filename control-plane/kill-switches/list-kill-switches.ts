import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { KillSwitch } from '../platform/store/generated/client.ts';
import { killSwitchRecordOf } from './kill-switch-record.ts';

/** The tenant's kill switches, newest first: those in force, or all that ever were. */
export async function listKillSwitches(
  { db, clock, guard }: Pick<Services, 'db' | 'clock' | 'guard'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitchRecord[]> {
  const rows = await killSwitchRows({ db, clock }, { tenantId }, { status, limit });
  const signed = rows.filter((row) => guard.holds('kill_switch', row));
  return signed.map((row) => killSwitchRecordOf(row, clock.now()));
}

/** The rows as they are stored, also those that fail their integrity check. */
export async function killSwitchRows(
  { db, clock }: Pick<Services, 'db' | 'clock'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitch[]> {
  const nowMs = clock.now();
  const inForce = {
    disarmedAt: null,
    OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
  };
  return db.killSwitch.findMany({
    where: { tenantId, ...(status === 'armed' ? inForce : {}) },
    orderBy: [{ armedAt: 'desc' }, { id: 'desc' }],
    take: limit,
  });
}
