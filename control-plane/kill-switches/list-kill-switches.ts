import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { ListQuery } from '../platform/signed-store/tables.ts';
import type { KillSwitch } from '../platform/store/generated/client.ts';

/** Returns the tenant's kill switches, newest first: only the armed ones, or all. */
export async function listKillSwitches(
  services: Pick<Services, 'db' | 'clock' | 'guard'>,
  { tenantId }: Pick<Caller, 'tenantId'>,
  { status, limit }: { readonly status: 'armed' | 'all'; readonly limit: number },
): Promise<readonly KillSwitchRecord[]> {
  const nowMs = services.clock.now();
  const query = killSwitchQuery(nowMs, { tenantId, status, limit });
  const rows = await signedRows(services, 'kill_switch').findValid(query);
  return rows.map((row) => killSwitchRecordOf(row, nowMs));
}

interface KillSwitchFilter {
  readonly tenantId: string;
  readonly status: 'armed' | 'all';
  readonly limit: number;
}

export function killSwitchQuery(
  nowMs: number,
  { tenantId, status, limit }: KillSwitchFilter,
): ListQuery<'kill_switch'> {
  const armedFilter = {
    disarmedAt: null,
    OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }],
  };
  return {
    where: { tenantId, ...(status === 'armed' ? armedFilter : {}) },
    orderBy: [{ armedAt: 'desc' }, { id: 'desc' }],
    take: limit,
  };
}

/** A kill switch as the API shows it at the given time. */
export function killSwitchRecordOf(row: KillSwitch, nowMs: number): KillSwitchRecord {
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
  { disarmedAt, expiresAt }: KillSwitch,
  nowMs: number,
): KillSwitchRecord['status'] {
  if (disarmedAt !== null) return 'disarmed';
  return expiresAt !== null && expiresAt.getTime() <= nowMs ? 'expired' : 'armed';
}
