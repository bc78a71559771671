import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recordMinters } from '../../../control-plane/platform/access/minters.ts';
import { allRoutes } from '../../../control-plane/routes.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { createServiceAccount, registerAgent } from '../../../shared/contract/agents.ts';
import { decideApproval, getApproval } from '../../../shared/contract/approvals.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { createKey } from '../../../shared/contract/keys.ts';
import { issuePassport } from '../../../shared/contract/passports.ts';
import { createPolicy } from '../../../shared/contract/policies/policies.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';

let services: TestServices;
let api: TestApi;
let alice: Client;
let agentId: number;
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  api = await startApi(allRoutes(services), services);
  alice = await api.client({ role: 'owner', principal: 'alice' });
  const registered = await alice.call(registerAgent, {
    body: { name: 'bot', capabilities: ['**'] },
  });
  agentId = registered.agent_id;
  const rules = [
    rule('require_approval', 'refund'),
    rule('require_approval', 'two', { approval: { quorum: 2 } }),
  ];
  const rules_json = { id: 'p', version: 1, rules };
  await alice.call(createPolicy, { body: { name: 'p', rules_json, publish: true } });
});
afterAll(async () => {
  await api?.close();
  await services?.close();
});

let resources = 0;
const action = (tool: string, more: object = {}) => {
  resources += 1;
  const resource = `payment:${resources}`;
  return { agent_id: String(agentId), user_id: 'user-1', tool, resource, args: {}, ...more };
};

async function ask(by: Client, one = action('refund')): Promise<number> {
  const { approval_request_id } = await by.call(preflight, { body: one as never });
  return Number(approval_request_id);
}

const decide = (id: number, by: Client, act = 'approve') =>
  by.call(decideApproval, { params: { id }, body: { action: act } as never });

/** Returns a client whose key was created by the client `by`. */
async function minted(by: Client, body: { role: string; principal?: string; name?: string }) {
  const { key } = await by.call(createKey, { body: { name: 'made', ...body } as never });
  return api.client(key);
}

async function agentKey(): Promise<Client> {
  const name = `account ${crypto.randomUUID()}`;
  const made = await alice.call(createServiceAccount, {
    body: { agent_id: agentId, name },
  });
  return api.client(made.key);
}

describe('the requester of an action', () => {
  it('cannot decide the approval, whichever user and agent the request names', async () => {
    const dora = await api.client({ role: 'admin', principal: 'dora' });
    const id = await ask(dora);
    for (const act of ['approve', 'deny', 'escalate', 'request_context']) {
      expect((await refusalOf(decide(id, dora, act))).code).toBe('approval.self_decision');
    }
    const other = await api.client({ role: 'approver', principal: 'anna' });
    expect((await decide(id, other)).status).toBe('approved');
  });

  it('cannot decide an approval that someone else requested earlier for the same action', async () => {
    const one = action('refund');
    const id = await ask(await agentKey(), one);
    const dora = await api.client({ role: 'admin', principal: 'dora' });
    expect(await ask(dora, one)).toBe(id);
    expect((await refusalOf(decide(id, dora))).code).toBe('approval.self_decision');
    const record = await alice.call(getApproval, { params: { id } });
    expect(record.requested_by).toEqual([expect.stringContaining('service-account:'), 'dora']);
    expect((await decide(id, alice)).status).toBe('approved');
  });

  it('cannot decide with a key that the requester created, or that created the requester’s key', async () => {
    const second = await minted(alice, { role: 'owner', principal: 'alicia' });
    const third = await minted(second, { role: 'approver', principal: 'al' });
    const mine = await ask(alice);
    for (const by of [second, third]) {
      expect((await refusalOf(decide(mine, by))).code).toBe('approval.self_decision');
    }
    const theirs = await ask(second);
    for (const by of [alice, third]) {
      expect((await refusalOf(decide(theirs, by))).code).toBe('approval.self_decision');
    }
    const bob = await api.client({ role: 'approver', principal: 'bob' });
    expect((await decide(theirs, bob)).status).toBe('approved');
  });

  it('cannot decide even after the requester was removed from the approval’s row in the database', async () => {
    const dora = await api.client({ role: 'admin', principal: 'dora' });
    const id = await ask(dora);
    await services.pool.query(`update approval set requested_by = '{}' where id = $1`, [id]);
    expect((await refusalOf(decide(id, dora))).code).toBe('integrity.forged_row');
  });

  it('is only the agent if the request uses the agent’s key, so the creator of the key may decide', async () => {
    const id = await ask(await agentKey());
    expect((await decide(id, alice)).status).toBe('approved');
  });
});

describe('a person with several keys', () => {
  it('has only one vote, even with other keys that this person created', async () => {
    const id = await ask(await agentKey(), action('two'));
    const one = await minted(alice, { role: 'owner', principal: 'one' });
    const two = await minted(alice, { role: 'owner', principal: 'two' });
    expect((await decide(id, one)).votes_missing).toBe(1);
    for (const by of [alice, two]) {
      expect((await refusalOf(decide(id, by))).code).toBe('approval.already_voted');
    }
    const bob = await api.client({ role: 'approver', principal: 'bob' });
    expect((await decide(id, bob)).status).toBe('approved');
  });

  it('has only one vote, even with keys from the time when key creators were not yet recorded', async () => {
    await api.key({ role: 'owner', principal: 'root' });
    const key = await api.key({ role: 'owner', principal: 'older' });
    await services.db.apiKey.updateMany({
      where: { principal: 'older' },
      data: { createdBy: 'root' },
    });
    const root = await api.client({ role: 'owner', principal: 'root' });
    const id = await ask(await agentKey(), action('two'));
    const older = await api.client(key);
    await decide(id, root);
    expect((await refusalOf(decide(id, older))).code).toBe('approval.already_voted');
    await recordMinters(services);
    const row = await services.db.apiKey.findFirstOrThrow({ where: { principal: 'older' } });
    expect(row.mintedBy).toEqual(['root']);
    expect(services.guard.holds('api_key', row)).toBe(true);
    await services.pool.query(`update api_key set minted_by = '{}' where principal = 'older'`);
    services.clock.advance(2_000);
    expect((await refusalOf(decide(id, older))).code).toBe('integrity.forged_row');
    await services.db.apiKey.updateMany({ where: { principal: 'older' }, data: { mintedBy: [] } });
  });
});

describe('a user who must authenticate again', () => {
  const passport = async (by: Client) => {
    const { passport: token } = await by.call(issuePassport, {
      body: {
        tenant_id: 'default',
        agent_id: String(agentId),
        goal: 'Work',
        risk_tier: 'low',
        user_id: 'user-1',
        allowed_tools: ['**'],
        policy_id: 'p',
        approval_hash: null,
        audience: 'gateway://agents',
        ttl_seconds: 300,
      } as never,
    });
    return token;
  };

  it.each([
    ['a developer who is another person', { role: 'developer', principal: 'dev' }, false],
    ['the user', { role: 'developer', principal: 'User-1' }, true],
    ['a holder of the attestation permission', { role: 'admin', principal: 'adam' }, true],
  ] as const)(
    'counts as authenticated only if an entitled person issues the new passport; the issuer is %s',
    async (_who, holder, isThere) => {
      const anna = await api.client({ role: 'approver', principal: 'anna' });
      const bot = await agentKey();
      const one = action('refund');
      const id = await ask(bot, one);
      await decide(id, anna, 'require_reauth');
      services.clock.advance(1_000);
      await ask(bot, { ...one, passport: await passport(await api.client(holder)) } as never);
      const deciding = decide(id, anna);
      if (isThere) expect((await deciding).status).toBe('approved');
      else expect((await refusalOf(deciding)).code).toBe('approval.precondition_unmet');
    },
  );

  it('does not count as authenticated if the agent issues the passport with its own key', async () => {
    const anna = await api.client({ role: 'approver', principal: 'anna' });
    const key = await api.key({ role: 'agent', agentId, principal: 'user-1' });
    const bot = await api.client(key);
    const one = action('refund');
    const id = await ask(await agentKey(), one);
    await decide(id, anna, 'require_reauth');
    services.clock.advance(1_000);
    await ask(bot, { ...one, passport: await passport(bot) } as never);
    expect((await refusalOf(decide(id, anna))).code).toBe('approval.precondition_unmet');
  });
});
