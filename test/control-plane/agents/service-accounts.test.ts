import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import { createServiceAccount, getAgent } from '../../../shared/contract/agents.ts';
import { revokeKey } from '../../../shared/contract/keys.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import {
  type Gateway,
  refusalOf,
  roomyLimits,
  routesOf,
  startGateway,
} from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';

let gateway: Gateway;
let api: TestApi;
let own: number;
let another: number;
beforeAll(async () => {
  gateway = await startGateway();
  const { services } = gateway;
  api = await startApi([...routesOf(services), ...keyRoutes(services)], services, {
    limits: roomyLimits,
  });
  own = Number(await gateway.agent('own', ['pay']));
  another = Number(await gateway.agent('another', ['pay']));
});
afterAll(async () => {
  await api.close();
  await gateway.close();
});

const mint = (body: object, client = gateway.owner) =>
  client.call(createServiceAccount, { body: body as never });

describe('a service account', () => {
  it('gets a key that is returned once, stored as a hash, and recorded with the account', async () => {
    const minted = await mint({ agent_id: own, name: 'first' });
    expect(minted).toMatchObject({ agent_id: own, role: 'agent', expires_at: null });
    expect(minted.key).toMatch(/^apk_/);
    expect(minted.principal).toBe(`service-account:${minted.id}`);
    const { db } = gateway.services;
    const row = await db.apiKey.findUniqueOrThrow({ where: { id: minted.key_id } });
    expect(row).toMatchObject({ role: 'agent', scope: 'tenant', agentId: own });
    const detail = await gateway.owner.call(getAgent, { params: { id: own } });
    expect(JSON.stringify([row, detail])).not.toContain(minted.key);
    expect(detail.service_accounts).toContainEqual({
      id: minted.id,
      name: 'first',
      principal: minted.principal,
      created_at: minted.created_at,
      active: true,
    });
    const events = await eventsOf(gateway.services, 'default');
    const about = events.filter(({ data }) => data.key_id === minted.key_id);
    expect(about.map(({ type }) => type)).toEqual(['key.created', 'agent.service_account_created']);
    expect(JSON.stringify(events)).not.toContain(minted.key);
  });

  it('acts for its agent only: each operation on another agent gets 403', async () => {
    const { key } = await mint({ agent_id: own, name: 'bound' });
    const theirs = await gateway.post('/v1/agents/issue-passport', {
      agent_id: another,
      requested_tools: ['pay'],
    });
    const passport = String(theirs.body?.token);
    const asked = (agent_id: number) => ({
      '/v1/actions/preflight': {
        tool: 'pay',
        resource: 'r',
        agent_id: String(agent_id),
        user_id: 'u',
      },
      '/v1/actions/decision': {
        tool: 'pay',
        resource: 'r',
        agent_id: String(agent_id),
        user_id: 'u',
      },
      '/v1/agents/issue-passport': { agent_id, requested_tools: ['pay'] },
      '/v1/agents/validate': { agent_id },
      '/v1/agents/renew': { agent_id, passport },
      '/v1/agents/refresh-passport': { agent_id, passport },
      '/v1/passports/issue': {
        tenant_id: 'default',
        agent_id: String(agent_id),
        user_id: '*',
        goal: '',
        allowed_tools: ['pay'],
        risk_tier: 'low',
        policy_id: 'p',
        audience: 'gateway://agents',
        ttl_seconds: 60,
      },
    });
    for (const [path, body] of Object.entries(asked(another))) {
      const answer = await gateway.post(path, body, key);
      expect([path, answer.status, answer.body?.reason_code]).toEqual([
        path,
        403,
        'agent.mismatch',
      ]);
    }
    for (const [path, body] of Object.entries(asked(own))) {
      const answer = await gateway.post(path, body, key);
      const isTheirs = path.includes('/renew') || path.includes('refresh');
      // The request has the account's own agent_id, and the passport of another agent.
      if (isTheirs) {
        expect([answer.status, answer.body?.reason_code]).toEqual([403, 'passport.agent_mismatch']);
      } else expect([path, Math.floor(answer.status / 100)]).toEqual([path, 2]);
    }
  });

  it('cannot read the passport of another agent', async () => {
    const { key } = await mint({ agent_id: own, name: 'reader' });
    const theirs = await gateway.post('/v1/agents/issue-passport', {
      agent_id: another,
      requested_tools: ['pay'],
      purpose: 'their secret purpose',
    });
    const passport = String(theirs.body?.token);
    for (const [path, body] of [
      ['/v1/passports/verify', { passport }],
      ['/v1/agents/validate', { agent_id: own, passport }],
    ] as const) {
      const answer = await gateway.post(path, body, key);
      expect(answer).toMatchObject({ status: 200, body: { valid: false } });
      expect(answer.text).toContain('passport.agent_mismatch');
      expect(answer.text).not.toContain('their secret purpose');
    }
  });

  it('has only the permissions of an agent, and cannot create keys', async () => {
    const { key } = await mint({ agent_id: own, name: 'limited' });
    const answers = await Promise.all([
      gateway.post('/v1/agents/service-accounts', { agent_id: own, name: 'more' }, key),
      gateway.post('/v1/agents/register', { name: 'own', capabilities: ['**'] }, key),
      gateway.post('/v1/passports/revoke', { jti: 'x' }, key),
      gateway.api.send('GET', '/api/v1/agents', { key }),
      gateway.api.send('PATCH', `/api/v1/agents/${own}`, { key, body: { disabled: false } }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(403));
  });

  it('has a unique name, and can get a new key for the same identity after its old key is revoked', async () => {
    const [first, ...others] = await Promise.allSettled(
      Array.from({ length: 8 }, () => mint({ agent_id: own, name: 'one of eight' })),
    ).then((settled) => settled.sort((a, b) => a.status.localeCompare(b.status)));
    expect(first?.status).toBe('fulfilled');
    for (const one of others) {
      expect(one).toMatchObject({ status: 'rejected', reason: { code: 'service_account.exists' } });
    }
    const minted = first?.status === 'fulfilled' ? first.value : undefined;
    const keys = await api.client(await gateway.api.key());
    await keys.call(revokeKey, { body: { id: minted?.key_id ?? '' } });
    const detail = await gateway.owner.call(getAgent, { params: { id: own } });
    expect(detail.service_accounts.find(({ id }) => id === minted?.id)).toMatchObject({
      active: false,
    });
    const renewed = await mint({ agent_id: own, name: 'one of eight' });
    expect(renewed).toMatchObject({ id: minted?.id, principal: minted?.principal });
    expect(renewed.key).not.toBe(minted?.key);
    const withNew = await gateway.post('/v1/agents/validate', { agent_id: own }, renewed.key);
    const withOld = await gateway.post('/v1/agents/validate', { agent_id: own }, minted?.key);
    expect([withNew.status, withOld.status]).toEqual([200, 401]);
  });

  it('is a different principal from every person, and no person can have the account’s name', async () => {
    const key = await gateway.api.key();
    const body = { name: 'x', role: 'agent', principal: 'service-account:sa_1' };
    const answer = await api.send('POST', '/api/v1/keys', { key, body });
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });

  it('loses access when it expires or when the key that created it is revoked', async () => {
    const { clock } = gateway.services;
    const inMinutes = (minutes: number) => new Date(clock.now() + minutes * 60_000);
    const admin = await gateway.as({ role: 'admin', expiresAt: inMinutes(10) });
    const bounded = await mint({ agent_id: own, name: 'bounded' }, admin);
    expect(bounded.expires_at).toBe(inMinutes(10).toISOString());
    const longer = { agent_id: own, name: 'longer', expires_at: inMinutes(20).toISOString() };
    expect((await refusalOf(mint(longer, admin))).code).toBe('key.role_exceeds_own');
    const past = { agent_id: own, name: 'past', expires_at: inMinutes(-1).toISOString() };
    expect((await refusalOf(mint(past))).code).toBe('args.schema_invalid');
    clock.advance(11 * 60_000);
    const answer = await gateway.post('/v1/agents/validate', { agent_id: own }, bounded.key);
    expect(answer.status).toBe(401);
  });

  it('can be created only for a registered agent, and with a key that is bound to an agent only for this agent', async () => {
    expect((await refusalOf(mint({ agent_id: 2_147_483_647, name: 'x' }))).code).toBe(
      'agent.not_found',
    );
    const bound = await gateway.as({ role: 'admin', agentId: another });
    expect((await refusalOf(mint({ agent_id: own, name: 'x' }, bound))).code).toBe(
      'agent.mismatch',
    );
    for (const body of [{ agent_id: own }, { agent_id: own, name: 'a\nb' }, { name: 'x' }]) {
      expect((await refusalOf(mint(body))).code).toBe('args.schema_invalid');
    }
  });
});
