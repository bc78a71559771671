import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../../control-plane/core/services.ts';
import { secretFree, secretPaths } from '../../../control-plane/credentials/secret-paths.ts';
import { allRoutes } from '../../../control-plane/routes.ts';
import type { Role } from '../../../shared/contract/keys.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, roomyLimits, startGateway } from '../../support/control-plane/gateway.ts';

const operations = allRoutes({} as Services).map(({ operation }) => operation);
const secret = 'sk_live_nobody_reads_this';
const without: readonly Role[] = ['developer', 'approver', 'auditor', 'agent', 'gateway'];

let gateway: Gateway;
let api: TestApi;
beforeAll(async () => {
  gateway = await startGateway();
  api = await startApi(allRoutes(gateway.services), gateway.services, { limits: roomyLimits });
  const bind = { tools: ['payments.*'], hosts: ['api.payments.example'] };
  const body = { name: 'vault', secret, inject: { in: 'bearer' }, bind };
  expect((await gateway.post('/v1/credentials', body)).status).toBe(200);
});
afterAll(async () => {
  await api.close();
  await gateway.close();
});

it('every operation is listed exactly once: as a path to a secret, or as free of secrets', () => {
  const classified = [...Object.keys(secretPaths), ...secretFree];
  expect(classified.toSorted()).toEqual(operations.map(({ id }) => id).toSorted());
});

it('every operation that can reach a secret requires the permission that the list states for it', () => {
  for (const [id, [guard]] of Object.entries(secretPaths)) {
    const operation = operations.find((one) => one.id === id);
    if (guard === 'enrolment' || guard === 'sealed hosts' || id === 'registerAgent') continue;
    expect([id, operation?.permission]).toEqual([id, guard]);
  }
});

describe.each(without)('a key of role %s', (role) => {
  it('cannot read a secret through any operation, or through the sidecar of the key holder’s agent', async () => {
    const agentId = await gateway.agent(`run by ${role}`, ['notes.*']);
    const { controlPlane } = await enrolledSidecar(gateway, agentId);
    const key = await api.key({ role, scope: 'gateway', principal: role });
    for (const { id, method, path, bodyExample, success } of operations) {
      if (success.contentType === 'text/event-stream' || id === 'streamEvidence') continue;
      const at = `/api${path.replaceAll(/\{\w+\}/g, id === 'updateAgent' ? agentId : '1')}`;
      const body = bodyOf(id, { agentId, role }) ?? bodyExample;
      const answer = await api.send(method, at, { key, ...(body === undefined ? {} : { body }) });
      expect([id, answer.text.includes(secret)]).toEqual([id, false]);
      const token = answer.body?.token;
      expect([id, typeof token === 'string' && token.startsWith('set_')]).toEqual([id, false]);
    }
    expect((await controlPlane.credentials()).credentials).toEqual([]);
  });
});

/** Returns the body that requests the most rights, or undefined if the operation's example already does. */
function bodyOf(id: string, { agentId, role }: { agentId: string; role: Role }) {
  const bodies: Readonly<Record<string, unknown>> = {
    createEnrolmentToken: { agent_id: agentId, user_id: 'ceo', max_uses: 1000 },
    registerAgent: { name: `run by ${role}`, capabilities: ['**'] },
    createKey: { name: 'mine', role: 'owner' },
    createServiceAccount: { agent_id: Number(agentId), name: 'mine' },
    updateAgent: { disabled: false },
  };
  return bodies[id];
}
