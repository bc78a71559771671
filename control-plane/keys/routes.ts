import * as contract from '../../shared/contract/keys.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { createKey } from './create-key.ts';
import { listKeys } from './list-keys.ts';
import { revokeKey } from './revoke-key.ts';
import { rotateSigningKey } from './rotate-signing-key.ts';

export function keyRoutes(services: Services): readonly Route[] {
  return [
    route(contract.listKeys, async (_input, caller) => ({
      body: { keys: [...(await listKeys(services, caller))] },
    })),
    route(contract.createKey, async ({ body }, caller) => ({
      body: await createKey(services, caller, body),
    })),
    route(contract.revokeKey, async ({ body }, caller) => ({
      body: await revokeKey(services, caller, body.id),
    })),
    route(contract.rotateSigningKey, async ({ body }, caller) => ({
      body: await rotateSigningKey(services, caller, body.purpose),
    })),
  ];
}
