import type { KillSwitchRecord } from '../../shared/contract/kill-switches.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { killSwitchRecordOf } from './kill-switch-record.ts';

/** Disarms a kill switch for good; again changes nothing. */
export async function disarmKillSwitch(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<KillSwitchRecord> {
  const nowMs = services.clock.now();
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.killSwitch.updateMany({
      where: { tenantId, id, disarmedAt: null },
      data: { disarmedAt: new Date(nowMs), disarmedBy: principal },
    });
    const row = await tx.killSwitch.findUnique({ where: { tenantId_id: { tenantId, id } } });
    if (row === null) throw new GatewayError('kill_switch.not_found');
    if (count === 1) {
      // Whatever a switch says that is not ours: disarmed, it says nothing.
      await notes.signed('kill_switch', row);
      notes.sections('kill_switches');
      await notes.event({
        type: 'kill_switch.disarmed',
        chainId: `kill_switches:${id}`,
        agentId: row.agentId ?? undefined,
        tool: row.tool ?? undefined,
        data: { by: principal, kill_switch_id: id, kind: row.kind },
      });
    }
    return row;
  });
  return killSwitchRecordOf(result, nowMs);
}
