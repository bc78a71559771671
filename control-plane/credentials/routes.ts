import * as contract from '../../shared/contract/credentials.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { listCredentials } from './list-credentials.ts';
import { removeCredential } from './remove-credential.ts';
import { storeCredential } from './store-credential.ts';
import { warnCredential } from './warn-credential.ts';

export function credentialRoutes(services: Services): readonly Route[] {
  return [
    route(contract.listCredentials, async (_input, caller) => ({
      body: { credentials: [...(await listCredentials(services, caller))] },
    })),
    route(contract.storeCredential, async ({ body }, caller) => {
      const stored = await storeCredential(services, caller, body);
      return { body: { ...stored, ...(await warnCredential(services, caller.tenantId, stored)) } };
    }),
    route(contract.deleteCredential, async ({ params }, caller) => ({
      body: await removeCredential(services, caller, params.id),
    })),
  ];
}
