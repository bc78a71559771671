import * as contract from '../../shared/contract/users.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { putUser, readUser } from './put-user.ts';

export function userRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getUser, async ({ params }, caller) => ({
      body: await readUser(services, caller, params.id),
    })),
    route(contract.putUser, async ({ params, body }, caller) => ({
      body: await putUser(services, caller, { id: params.id, fields: body }),
    })),
  ];
}
