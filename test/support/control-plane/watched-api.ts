import type { Route } from '../../../control-plane/platform/http/route.ts';
import { startApi } from './api.ts';
import { type TestServices, testServices, watchSections } from './services.ts';

const boundless = { tenant: 1e6, control: 1e6, sidecar: 1e6, address: 1e6 };

/**
 * Starts routes on services of their own. `moved` lists the sections that their use cases change.
 */
export async function startWatchedApi(
  routesOf: (services: TestServices) => readonly Route[],
  options: Parameters<typeof testServices>[0] = {},
) {
  const services = await testServices(options);
  const { watched, moved } = watchSections(services);
  const api = await startApi(routesOf(watched), watched, {
    limits: { requestsPerMinute: boundless },
  });
  const close = async () => {
    await api.close();
    await services.close();
  };
  return { services, api, moved, close };
}
