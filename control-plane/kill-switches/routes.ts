import * as contract from '../../shared/contract/kill-switches.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';
import { armKillSwitch, disarmKillSwitch } from './arm-kill-switch.ts';
import { waitForConfirmation } from './confirmation.ts';
import { listKillSwitches } from './list-kill-switches.ts';

export function killSwitchRoutes(services: Services): readonly Route[] {
  return [
    route(contract.listKillSwitches, async ({ query }, caller) => ({
      body: { kill_switches: [...(await listKillSwitches(services, caller, query))] },
    })),
    route(contract.armKillSwitch, async ({ body }, caller, { signal }) => {
      const { wait_ms: waitMs, ...wanted } = body;
      const armed = await armKillSwitch(services, caller, wanted);
      const confirmation = await waitForConfirmation(services, caller, { waitMs, signal });
      const tools = body.tool === undefined ? [] : [{ field: 'tool', tools: [body.tool] }];
      const warned = await warnUnknownTools(services, caller.tenantId, tools);
      return { body: { ...armed, ...confirmation, ...warned } };
    }),
    route(contract.disarmKillSwitch, async ({ params, query }, caller, { signal }) => {
      const disarmed = await disarmKillSwitch(services, caller, params.id);
      const confirmation = await waitForConfirmation(services, caller, {
        waitMs: query.wait_ms,
        signal,
      });
      return { body: { ...disarmed, ...confirmation } };
    }),
  ];
}
