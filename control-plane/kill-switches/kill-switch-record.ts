import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import type { KillSwitchModel } from '../platform/store/generated/models/KillSwitch.ts';

/** A kill switch as callers see it at this time. */
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
