import * as contract from '../../shared/contract/actions.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { execute } from './execute.ts';
import { preflight } from './preflight.ts';

export function actionRoutes(services: Services): Route[] {
  return [
    route(contract.preflight, async ({ body }, caller) => ({
      body: await preflight(services, caller, body),
    })),
    route(contract.decideAction, async ({ body }, caller) => ({
      body: await preflight(services, caller, body),
    })),
    route(contract.executeAction, async ({ body }, caller) => ({
      body: await execute(services, caller, body),
    })),
  ];
}
