import * as contract from '../../shared/contract/evidence/privacy.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { eraseEventArguments } from './erase-event.ts';
import { erasePersonalData } from './erase-personal-data.ts';
import { readEventArguments } from './event-arguments.ts';

export function privacyRoutes(services: Services): readonly Route[] {
  return [
    route(contract.getEventArguments, async ({ params }, { tenantId }) => ({
      body: await readEventArguments(services, tenantId, params.id),
    })),
    route(contract.eraseEventArguments, async ({ params }, caller) => ({
      body: await eraseEventArguments(services, caller, params.id),
    })),
    route(contract.erasePersonalData, async ({ body }, caller) => ({
      body: await erasePersonalData(services, caller, body),
    })),
  ];
}
