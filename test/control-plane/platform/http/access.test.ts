import { afterAll } from 'vitest';
import { z } from 'zod';
import { type Route, route } from '../../../../control-plane/platform/http/route.ts';
import { operation } from '../../../../shared/contract/base/operation.ts';
import { describeAccess } from '../../../support/control-plane/access-suite.ts';
import { startApi } from '../../../support/control-plane/api.ts';
import { describeContract } from '../../../support/control-plane/contract-suite.ts';
import { foreignObjects } from '../../../support/control-plane/foreign-objects.ts';
import { testServices } from '../../../support/control-plane/services.ts';

const services = await testServices();

const ok = z.object({ ok: z.boolean() });
const probe = { tag: 'Probe', summary: 'Probe', errors: [] } as const;
const probed = { status: 200, description: 'Ok.', schema: ok, example: { ok: true } } as const;

/** One operation for each kind of authentication. */
const probes: readonly Route[] = [
  route(
    operation({
      ...probe,
      id: 'probeGateway',
      method: 'POST',
      path: '/v1/probe/gateway',
      auth: 'gateway',
      permission: 'action.execute',
      success: probed,
    }),
    async () => ({ body: { ok: true } }),
  ),
  route(
    operation({
      ...probe,
      id: 'probeSidecar',
      method: 'GET',
      path: '/v1/probe/sidecar',
      auth: 'sidecar',
      success: probed,
    }),
    async () => ({ body: { ok: true } }),
  ),
  route(
    operation({
      ...probe,
      id: 'probeOpen',
      method: 'GET',
      path: '/v1/probe/open',
      auth: 'none',
      success: probed,
    }),
    async () => ({ body: { ok: true } }),
  ),
];

const api = await startApi(probes, services);

afterAll(async () => {
  await api.close();
  await services.close();
});

describeContract(probes.map((one) => one.operation));

describeAccess(probes, {
  api: () => api,
  objects: foreignObjects(services, api),
});
