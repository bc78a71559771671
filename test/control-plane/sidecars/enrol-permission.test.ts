import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { registerAgent } from '../../../shared/contract/agents.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { storeCredential } from '../../../shared/contract/credentials.ts';
import { createEnrolmentToken, revokeSidecar } from '../../../shared/contract/sidecars.ts';
import type { Environment } from '../../../shared/vocabulary/action.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let developer: Client;
let admin: Client;
let name: string;
let made = 0;
beforeAll(async () => {
  gateway = await startGateway();
  developer = await gateway.as({ role: 'developer', principal: 'dev' });
  admin = await gateway.as({ role: 'admin', principal: 'adam' });
  await gateway.owner.call(storeCredential, {
    body: {
      name: 'payments',
      secret: 'sk_live_1',
      inject: { in: 'bearer' },
      bind: { tools: ['payments.*'], hosts: ['api.payments.example'] },
    },
  });
});
afterAll(() => gateway.close());
beforeEach(() => {
  name = `bot-${++made}`;
});

const register = (client: Client, ...capabilities: string[]) =>
  client.call(registerAgent, { body: { name, capabilities } });

const token = (client: Client, agent_id: string, more: object = {}) =>
  client.call(createEnrolmentToken, { body: { agent_id, user_id: 'user-1', ...more } });

describe('an enrolment token', () => {
  it.each(['developer', 'approver', 'auditor', 'agent', 'gateway'] as const)(
    'cannot be created by a key of role %s',
    async (role) => {
      const agentId = await gateway.agent(name, ['notes.*']);
      const error = await refusalOf(token(await gateway.as({ role, scope: 'gateway' }), agentId));
      expect(error.code).toBe('auth.insufficient_permission');
    },
  );

  it('can be created by an admin, and the response contains the agent’s capabilities', async () => {
    const agentId = await gateway.agent(name, ['notes.*', 'mail.send']);
    expect(await token(admin, agentId)).toMatchObject({ capabilities: ['notes.*', 'mail.send'] });
    const { data } = await lastEvent('sidecar.token_created');
    expect(data).toMatchObject({ by: 'adam', capabilities: ['notes.*', 'mail.send'] });
  });

  it('for a user who holds an owner key can be created by owners only', async () => {
    const agentId = await gateway.agent(name, ['notes.*']);
    const key = await gateway.api.key({ role: 'owner', principal: 'olga' });
    const error = await refusalOf(token(admin, agentId, { user_id: 'olga' }));
    expect(error.code).toBe('sidecar.grant_exceeds_own');
    expect(await token(await gateway.api.client(key), agentId, { user_id: 'olga' })).toHaveProperty(
      'token',
    );
  });

  it.each(['*', 'sidecar:sc_1', 'service-account:sa_1'])(
    'cannot be created for the reserved user name %s',
    async (user_id) => {
      const agentId = await gateway.agent(name, ['notes.*']);
      const error = await refusalOf(token(gateway.owner, agentId, { user_id }));
      expect(error.code).toBe('args.schema_invalid');
    },
  );

  it('can be created with a key that is bound to the agent if a live sidecar of the agent has the same user and environment', async () => {
    const agentId = await gateway.agent(name, ['notes.*']);
    const bound = await gateway.as({ role: 'owner', agentId: Number(agentId) });
    const made = (user_id: string, environment: Environment) =>
      token(bound, agentId, { user_id, environment });
    expect((await refusalOf(made('user-1', 'staging'))).code).toBe('sidecar.grant_exceeds_own');
    const { id } = await enrolledSidecar(gateway, agentId);
    expect(await made('user-1', 'staging')).toHaveProperty('token');
    expect((await refusalOf(made('ceo', 'staging'))).code).toBe('sidecar.grant_exceeds_own');
    expect((await refusalOf(made('user-1', 'prod'))).code).toBe('sidecar.grant_exceeds_own');
    await gateway.owner.call(revokeSidecar, { params: { id } });
    expect((await refusalOf(made('user-1', 'staging'))).code).toBe('sidecar.grant_exceeds_own');
  });
});

describe('a developer', () => {
  it.each(['payments.refund', 'payments.*', '*.refund', 'pay**', '**', '*'])(
    'cannot register an agent with %s, which gives access to a credential',
    async (capability) => {
      const error = await refusalOf(register(developer, 'notes.*', capability));
      expect(error.code).toBe('agent.widening_refused');
      expect(error.message).toContain(`"${capability}"`);
      expect(error.message).toContain('sidecar.enrol');
      expect(await gateway.services.db.agent.count({ where: { name } })).toBe(0);
      expect(await register(admin, 'notes.*', capability)).toHaveProperty('agent_id');
    },
  );

  it('can register an agent and add capabilities if the agent gets no credentials and has no sidecar', async () => {
    await register(developer, 'notes.*');
    const wider = await register(developer, 'notes.*', 'mail.*', 'payments.*.read');
    expect(wider.capabilities).toEqual(['notes.*', 'mail.*', 'payments.*.read']);
  });

  it('can remove capabilities of an agent with a live sidecar, but cannot add any', async () => {
    const agentId = await gateway.agent(name, ['notes.*', 'mail.send']);
    const { id } = await enrolledSidecar(gateway, agentId);
    const error = await refusalOf(register(developer, 'notes.*', 'mail.send', 'calendar.*'));
    expect(error.code).toBe('agent.widening_refused');
    expect((await register(developer, 'notes.read')).capabilities).toEqual(['notes.read']);
    expect((await refusalOf(register(developer, 'notes.*'))).code).toBe('agent.widening_refused');
    await gateway.owner.call(revokeSidecar, { params: { id } });
    expect((await register(developer, 'notes.*', 'calendar.*')).capabilities).toHaveLength(2);
  });

  it('can change the goal of an agent whose capabilities already give access to a credential', async () => {
    await register(admin, 'payments.*');
    const body = { name, capabilities: ['payments.refund'], goal: 'Refund orders' };
    expect(await developer.call(registerAgent, { body })).toMatchObject({ goal: 'Refund orders' });
  });

  it('cannot add capabilities to an agent that has a valid enrolment token', async () => {
    const agentId = await gateway.agent(name, ['notes.*']);
    await token(admin, agentId);
    const error = await refusalOf(register(developer, 'notes.*', 'calendar.*'));
    expect(error.code).toBe('agent.widening_refused');
    gateway.services.clock.advance(10 * 60_000);
    expect(await register(developer, 'notes.*', 'calendar.*')).toHaveProperty('agent_id');
  });

  it('cannot add capabilities to an agent while an enrolment token is created concurrently', async () => {
    for (let round = 0; round < 10; round += 1) {
      name = `raced-${++made}`;
      const agentId = await gateway.agent(name, ['notes.*']);
      const [{ value: minted }, widened] = await Promise.all([
        token(admin, agentId).then((value) => ({ value })),
        register(developer, 'notes.*', 'calendar.*').then(
          (agent) => agent.capabilities,
          () => ['notes.*'],
        ),
      ]);
      expect(minted.capabilities).toEqual(widened);
    }
  });

  it('gains no access from a changed tool list in a credential’s row, because the check reads the sealed data', async () => {
    const where = { tenantId: 'default', name: 'payments' };
    await gateway.services.db.credential.updateMany({ where, data: { tools: ['nothing'] } });
    const error = await refusalOf(register(developer, 'payments.refund'));
    expect(error.code).toBe('agent.widening_refused');
    await gateway.services.db.credential.updateMany({ where, data: { tools: ['payments.*'] } });
  });
});

async function lastEvent(type: string) {
  const row = await gateway.services.db.evidenceRow.findFirstOrThrow({
    where: { type },
    orderBy: { position: 'desc' },
  });
  return JSON.parse(row.canonical) as { readonly data: Record<string, unknown> };
}
