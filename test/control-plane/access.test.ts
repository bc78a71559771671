import { afterAll } from 'vitest';
import { allRoutes } from '../../control-plane/routes.ts';
import { describeAccess } from '../support/control-plane/access-suite.ts';
import { startApi } from '../support/control-plane/api.ts';
import { describeContract } from '../support/control-plane/contract-suite.ts';
import { foreignObjects } from '../support/control-plane/foreign-objects.ts';
import { testServices } from '../support/control-plane/services.ts';

const services = await testServices();
const routes = allRoutes(services);
const unlimited = 1_000_000;
const api = await startApi(routes, services, {
  limits: {
    unknownKeysPerMinute: unlimited,
    requestsPerMinute: {
      tenant: unlimited,
      control: unlimited,
      sidecar: unlimited,
      address: unlimited,
    },
  },
});

afterAll(async () => {
  await api.close();
  await services.close();
});

describeContract(routes.map(({ operation }) => operation));
describeAccess(routes, { api: () => api, objects: foreignObjects(services, api) });
