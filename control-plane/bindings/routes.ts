import * as contract from '../../shared/contract/bindings.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { deleteBinding, putBinding } from './put-binding.ts';
import { listBindings } from './stored-binding.ts';

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
