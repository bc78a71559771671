import { afterAll } from 'vitest';
import { z } from 'zod';
import { credentialRoutes } from '../../../control-plane/credentials/routes.ts';
import { type Route, route } from '../../../control-plane/http/route.ts';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import { bindingRoutes } from '../../../control-plane/runtime/routes.ts';
import { userRoutes } from '../../../control-plane/users/routes.ts';
import { operation } from '../../../shared/contract/operation.ts';
import { describeAccess } from '../../support/access-suite.ts';
import { startApi } from '../../support/api.ts';
import { describeContract } from '../../support/contract-suite.ts';
import { testServices } from '../../support/services.ts';

const services = await testServices();

const ok = z.object({ ok: z.boolean() });
const probe = { tag: 'Probe', summary: 'Probe', errors: [] } as const;
const probed = { status: 200, description: 'Ok.', schema: ok, example: { ok: true } } as const;

/** Kinds of operation that the resources under test have none of. */
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

const routes: readonly Route[] = [
  ...keyRoutes(services),
  ...credentialRoutes(services),
  ...bindingRoutes(services),
  ...userRoutes(services),
  ...probes,
];

const api = await startApi(routes, services);

afterAll(async () => {
  await api.close();
  await services.close();
});

describeContract(routes.map((one) => one.operation));

describeAccess(routes, {
  api: () => api,
  objects: {
    '/v1/keys': async (tenantId) => {
      const key = await api.key({ tenantId });
      const row = await services.db.apiKey.findFirstOrThrow({
        where: { tenantId, start: key.slice(0, 8), last4: key.slice(-4) },
      });
      return row.id;
    },
    '/v1/agents': async (tenantId) => {
      const { id } = await services.db.agent.create({
        data: { tenantId, name: 'foreign', capabilities: ['*'] },
      });
      return id;
    },
    '/v1/users': async (tenantId) => {
      const { id } = await services.db.directoryUser.create({
        data: { tenantId, id: 'foreign-user', role: 'lead' },
      });
      return id;
    },
    '/v1/runtime/bindings': async (tenantId) => {
      const { name } = await services.db.binding.create({
        data: {
          tenantId,
          name: 'foreign-binding',
          protocol: 'passthrough',
          host: 'foreign.example',
          definition: { name: 'foreign-binding', protocol: 'passthrough', host: 'foreign.example' },
          updatedBy: 'test',
        },
      });
      return name;
    },
  },
});
