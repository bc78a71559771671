import { afterAll, beforeAll } from 'vitest';
import type { Services } from '../../control-plane/services.ts';
import { newId } from '../../shared/ids.ts';
import { describeAccess } from '../support/access-suite.ts';
import { startApi, type TestApi } from '../support/api.ts';
import { describeContract } from '../support/contract-suite.ts';
import { roomyLimits, routesOf } from '../support/gateway.ts';
import { type TestServices, testServices } from '../support/services.ts';

let services: TestServices;
let api: TestApi;
beforeAll(async () => {
  services = await testServices();
  for (const id of ['access-own', 'access-other']) {
    await services.db.tenant.create({ data: { id, name: id } });
  }
  api = await startApi(routesOf(services), services, { limits: roomyLimits });
});
afterAll(async () => {
  await api.close();
  await services.close();
});

// Routes only hold on to their services; none is called before the suite's begin.
const routes = routesOf({} as Services);

describeContract(routes.map(({ operation }) => operation));

describeAccess(routes, {
  api: () => api,
  objects: {
    '/v1/agents': async (tenantId) => {
      const data = { tenantId, name: newId('agent', Date.now()), capabilities: ['**'] };
      return (await services.db.agent.create({ data })).id;
    },
    '/v1/tools': async (tenantId) => {
      const tool = { tenantId, name: newId('tool', Date.now()) };
      const version = { hash: 'h', surfaceHash: 's', manifest: '{}', ingestedBy: 'x' };
      await services.db.toolVersion.create({ data: { ...tool, ...version } });
      const standing = { manifestHash: 'h', approvalStatus: 'approved', riskTier: 'low' };
      await services.db.tool.create({ data: { ...tool, ...standing } });
      return tool.name;
    },
    '/v1/policies': async (tenantId) => {
      const policy = { name: 'p', definitionId: 'p', version: 1, policyHash: '', createdBy: 'x' };
      const definition = JSON.stringify({ id: 'p', version: 1, rules: [] });
      return (await services.db.policy.create({ data: { tenantId, ...policy, definition } })).id;
    },
    '/v1/approvals': async (tenantId) => {
      const data = {
        tenantId,
        agentId: '1',
        userId: 'u',
        tool: 't',
        resource: 'r',
        riskTier: 'low',
        reasonCode: 'x',
        summary: 'x',
        chainId: 'agent:1',
        actionDigest: newId('digest', Date.now()),
        expiresAt: new Date(Date.now() + 1e6),
      };
      return (await services.db.approval.create({ data })).id;
    },
    '/v1/sidecars': async (tenantId) => {
      const data = {
        id: newId('sc', Date.now()),
        tenantId,
        agentId: '1',
        userId: 'u',
        environment: 'prod',
        signingJwk: {},
        encryptionJwk: {},
      };
      return (await services.db.sidecar.create({ data })).id;
    },
  },
});
