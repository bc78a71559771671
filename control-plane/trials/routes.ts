import { simulateActions } from '../../shared/contract/policies/simulation.ts';
import { backtestPolicy, getObservedDecisions } from '../../shared/contract/policies/trials.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import { backtest } from './backtest.ts';
import { observedDecisions } from './observed-decisions.ts';
import { simulate } from './simulate.ts';

export function trialRoutes(services: Services): readonly Route[] {
  return [
    route(simulateActions, async ({ body }, caller) => ({
      body: await simulate(services, caller, body),
    })),
    route(backtestPolicy, async ({ body }, caller) => ({
      body: await backtest(services, caller.tenantId, body),
    })),
    route(getObservedDecisions, async ({ params, query }, caller) => ({
      body: await observedDecisions(services, caller, { ...params, ...query }),
    })),
  ];
}
