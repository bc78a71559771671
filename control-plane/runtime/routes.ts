import * as contract from '../../shared/contract/bindings.ts';
import * as killSwitches from '../../shared/contract/kill-switches.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { armKillSwitch } from './arm-kill-switch.ts';
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
    route(killSwitches.armKillSwitch, async ({ body }, caller) => ({
      body: await armKillSwitch(services, caller, body),
    })),
    route(killSwitches.disarmKillSwitch, async ({ params }, caller) => ({
      body: await disarmKillSwitch(services, caller, params.id),
    })),
  ];
}
