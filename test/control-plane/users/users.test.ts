import { afterAll, expect, it } from 'vitest';
import { userRoutes } from '../../../control-plane/users/routes.ts';
import { getUser, putUser } from '../../../shared/contract/users.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const { services, api, moved, close } = await startWatchedApi(userRoutes);
afterAll(close);

it('writing a user replaces the whole record and publishes it to the sidecars', async () => {
  const client = await api.client({ tenantId: 't1' });
  const params = { id: 'user/12 ü' };
  await client.call(putUser, { params, body: { email: 'dana@a.example', role: 'lead' } });
  const read = await client.call(getUser, { params });
  expect(read).toMatchObject({ id: 'user/12 ü', email: 'dana@a.example', role: 'lead' });
  await client.call(putUser, { params, body: { role: 'agent' } });
  expect(await client.call(getUser, { params })).toMatchObject({ email: null, role: 'agent' });
  expect(moved).toEqual(['t1 agents', 't1 agents']);
});

it('the ledger records the role of a user, but never the user’s email address', async () => {
  const events = await eventsOf(services, 't1');
  expect(events[0]).toMatchObject({
    type: 'user.written',
    user_id: 'user/12 ü',
    data: { role: 'lead', has_email: true },
  });
  expect(JSON.stringify(events)).not.toContain('dana@a.example');
});

it('concurrent writes of one user leave one complete record', async () => {
  const client = await api.client({ tenantId: 't2' });
  const roles = Array.from({ length: 8 }, (_, index) => `role ${index}`);
  await Promise.all(
    roles.map((role) => client.call(putUser, { params: { id: 'u' }, body: { role } })),
  );
  expect(roles).toContain((await client.call(getUser, { params: { id: 'u' } })).role);
});

it('an unknown user is not found', async () => {
  const client = await api.client({ tenantId: 't3' });
  await expect(client.call(getUser, { params: { id: 'none' } })).rejects.toMatchObject({
    code: 'user.not_found',
  });
});
