import * as contract from '../../shared/contract/bindings.ts';
import * as killSwitches from '../../shared/contract/kill-switches.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';
import { armKillSwitch } from './arm-kill-switch.ts';
import { confirmationIn } from './confirmation.ts';
import { deleteBinding } from './delete-binding.ts';
import { disarmKillSwitch } from './disarm-kill-switch.ts';
import { listBindings } from './list-bindings.ts';
import { listKillSwitches } from './list-kill-switches.ts';
import { putBinding } from './put-binding.ts';

export function bindingRoutes(services: Services): readonly Route[] {
  return [
    route(contract.listBindings, async (_input, caller) => ({
      body: { bindings: [...(await listBindings(services, caller))] },
    })),
    route(contract.putBinding, async ({ params, body }, caller) => ({
      body: await putBinding(services, caller, { name: params.name, fields: body }),
    })),
    route(contract.deleteBinding, async ({ params }, caller) => ({
      body: await deleteBinding(services, caller, params.name),
    })),
  ];
}

export function killSwitchRoutes(services: Services): readonly Route[] {
  return [
    route(killSwitches.listKillSwitches, async ({ query }, caller) => ({
      body: { kill_switches: [...(await listKillSwitches(services, caller, query))] },
    })),
    route(killSwitches.armKillSwitch, async ({ body }, caller, { signal }) => {
      const { wait_ms: waitMs, ...wanted } = body;
      const armed = await armKillSwitch(services, caller, wanted);
      const told = await confirmationIn(services, caller, { waitMs, signal });
      const tools = body.tool === undefined ? [] : [{ field: 'tool', tools: [body.tool] }];
      const warned = await warnUnknownTools(services, caller.tenantId, tools);
      return { body: { ...armed, ...told, ...warned } };
    }),
    route(killSwitches.disarmKillSwitch, async ({ params, query }, caller, { signal }) => {
      const disarmed = await disarmKillSwitch(services, caller, params.id);
      const told = await confirmationIn(services, caller, { waitMs: query.wait_ms, signal });
      return { body: { ...disarmed, ...told } };
    }),
  ];
}
