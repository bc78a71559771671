import * as contract from '../../shared/contract/tenants.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../services.ts';
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
