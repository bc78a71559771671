import { afterAll, beforeAll, expect, it } from 'vitest';
import { bindingRoutes } from '../../../control-plane/bindings/routes.ts';
import { credentialRoutes } from '../../../control-plane/credentials/routes.ts';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import { idempotent } from '../../../control-plane/platform/http/idempotency.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { storeCredential } from '../../../shared/contract/credentials.ts';
import { createKey, listKeys, revokeKey, rotateSigningKey } from '../../../shared/contract/keys.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';

// Embedded mode has one database connection, so code that waits for a second connection waits forever.
let services: TestServices;
let api: TestApi;

beforeAll(async () => {
  services = await testServices({ databaseUrl: 'embedded' });
  const routes = [
    ...keyRoutes(services),
    ...credentialRoutes(services),
    ...bindingRoutes(services),
  ];
  api = await startApi(routes, services);
});

afterAll(async () => {
  await api?.close();
  await services?.close();
});

it('concurrent key operations work on the single connection of the embedded database', async () => {
  const client = await api.client();
  const round = async (index: number) => {
    const made = await client.call(createKey, { body: { name: `k${index}`, role: 'auditor' } });
    await client.call(rotateSigningKey, { body: { purpose: 'passport' } });
    await client.call(putBinding, {
      params: { name: `b${index}` },
      body: { protocol: 'passthrough', host: `h${index}.example` },
    });
    await client.call(storeCredential, {
      body: {
        name: 'one',
        secret: `s${index}`,
        inject: { in: 'bearer' },
        bind: { tools: ['*'], hosts: ['a.example'] },
      },
    });
    await client.call(revokeKey, { body: { id: made.id } });
    return (await client.call(listKeys)).keys.length;
  };
  const counts = await Promise.all([0, 1, 2, 3].map(round));
  expect(Math.max(...counts)).toBe(5);
});

it('concurrent requests with one idempotency key are performed once on the single connection', async () => {
  let runs = 0;
  const call = {
    services,
    caller: {
      kind: 'key',
      tenantId: 't1',
      principal: 'p',
      role: 'agent',
      scope: 'tenant',
      permissions: new Set<never>(),
      keyId: 'key_1',
      address: '127.0.0.1',
    },
    operation: 'preflight',
    agentId: '7',
    key: 'k',
    payload: { tool: 'x' },
  } as const;
  const run = async () => {
    runs += 1;
    await services.db.tenant.count();
    return { status: 200, body: {} };
  };
  await Promise.all(Array.from({ length: 6 }, () => idempotent(call, run)));
  expect(runs).toBe(1);
});
