import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { KillSwitch } from '../platform/store/generated/client.ts';
import type { KillSwitchModel } from '../platform/store/generated/models/KillSwitch.ts';

/** The tenant's kill switches, newest first: the armed ones, or all. */
export async function listKillSwitches(
  { db, clock, guard }: Pick<Services, 'db' | 'clock' | 'guard'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitchRecord[]> {
  const rows = await killSwitchRows({ db, clock }, { tenantId }, { status, limit });
  const signed = rows.filter((row) => guard.holds('kill_switch', row));
  return signed.map((row) => killSwitchRecordOf(row, clock.now()));
}

/** Stored rows, including those that fail their integrity check. */
export async function killSwitchRows(
  { db, clock }: Pick<Services, 'db' | 'clock'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitch[]> {
  const nowMs = clock.now();
  const armedFilter = {
    disarmedAt: null,
    OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
  };
  return db.killSwitch.findMany({
    where: { tenantId, ...(status === 'armed' ? armedFilter : {}) },
    orderBy: [{ armedAt: 'desc' }, { id: 'desc' }],
    take: limit,
  });
}

/** A kill switch as the API shows it at this time. */
export function killSwitchRecordOf(row: KillSwitchModel, nowMs: number): KillSwitchRecord {
  return {
    id: row.id,
    kind: row.kind as KillSwitchRecord['kind'],
    status: statusOf(row, nowMs),
    tool: row.tool ?? undefined,
    agent_id: row.agentId ?? undefined,
    mode: row.mode ?? undefined,
    reason: row.reason,
    armed_by: row.armedBy,
    armed_at: row.armedAt.toISOString(),
    expires_at: row.expiresAt?.toISOString(),
    disarmed_by: row.disarmedBy ?? undefined,
    disarmed_at: row.disarmedAt?.toISOString(),
  };
}

function statusOf(
  { disarmedAt, expiresAt }: KillSwitchModel,
  nowMs: number,
): KillSwitchRecord['status'] {
  if (disarmedAt !== null) return 'disarmed';
  return expiresAt !== null && expiresAt.getTime() <= nowMs ? 'expired' : 'armed';
}
