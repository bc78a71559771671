import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import { isReservedPrincipal } from '../../../control-plane/platform/access/reserved-principals.ts';
import { createKey } from '../../../shared/contract/keys.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';

let services: TestServices;
let api: TestApi;
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  api = await startApi(keyRoutes(services), services);
});
afterAll(async () => {
  await api.close();
  await services.close();
});

describe('the check for principals that resemble an internal principal of Sallyport', () => {
  it.each([
    'sidecar:sc_1',
    'Sidecar:sc_1',
    'ｓidecar:sc_1',
    'sidecar：sc_1',
    'sidecar∶sc_1',
    'side\u200bcar:sc_1',
    'side car:sc_1',
    'ѕidecar:sc_1',
    'sıdecar:sc_1',
    ' sidecar:sc_1',
    'SERVICE-ACCOUNT:sa_1',
    'service\u00adaccount:sa_1\u202e',
    'service\u2011account:sa_1',
  ])('refuses the principal %j', async (principal) => {
    const owner = await api.client({ role: 'owner' });
    const body = { name: 'x', role: 'approver', principal } as const;
    const error = await refusalOf(owner.call(createKey, { body }));
    expect(error.code).toBe('args.schema_invalid');
    expect(await services.db.apiKey.count({ where: { principal } })).toBe(0);
  });

  it.each(['team:payments', 'oidc:https://idp.example/ann', 'sidecars', 'ann'])(
    'accepts the principal %j',
    async (principal) => {
      expect(isReservedPrincipal(principal)).toBe(false);
      const owner = await api.client({ role: 'owner' });
      const body = { name: 'x', role: 'approver', principal } as const;
      expect(await owner.call(createKey, { body })).toMatchObject({ principal });
    },
  );
});
