import * as contract from '../../shared/contract/tenants.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { changeTenantSettings, readTenantSettings } from './tenant-settings.ts';

export function tenantRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getTenantSettings, async (_input, caller) => ({
      body: await readTenantSettings(services, caller),
    })),
    route(contract.changeTenantSettings, async ({ body }, caller) => ({
      body: await changeTenantSettings(services, caller, body),
    })),
  ];
}
