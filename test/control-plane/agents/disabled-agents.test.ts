import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { issueAgentPassport } from '../../../shared/contract/agent-passports.ts';
import {
  createServiceAccount,
  getAgent,
  listAgents,
  updateAgent,
} from '../../../shared/contract/agents.ts';
import { verifyPassport } from '../../../shared/contract/passports.ts';
import { createEnrolmentToken } from '../../../shared/contract/sidecars.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
  await gateway.publish(rule('allow', 'pay'));
});
afterAll(() => gateway.close());

let agents = 0;
async function newAgent(): Promise<number> {
  agents += 1;
  return Number(await gateway.agent(`status ${agents}`));
}

const set = (id: number, disabled: boolean, client = gateway.owner, reason?: string) =>
  client.call(updateAgent, {
    params: { id },
    body: { disabled, ...(reason === undefined ? {} : { reason }) },
  });
const issue = (agent_id: number, client = gateway.owner) =>
  client.call(issueAgentPassport, { body: { agent_id, requested_tools: ['pay'] } as never });
const action = (id: number, more: object = {}) => ({
  tool: 'pay',
  resource: 'r',
  args: {},
  agent_id: String(id),
  user_id: 'u',
  ...more,
});

describe('a disabled agent', () => {
  it.each(['monitor', 'warn', 'enforce', 'strict'])(
    'is denied in preflight at once, also in mode %s',
    async (mode) => {
      const id = await newAgent();
      const { token: passport } = await issue(id);
      await set(id, true);
      for (const more of [{ mode }, { mode, passport }]) {
        const answer = await gateway.post('/v1/actions/preflight', action(id, more));
        expect(answer).toMatchObject({
          status: 200,
          body: { decision: 'deny', reason_code: 'agent.disabled', enforced: true },
        });
      }
    },
  );

  it('cannot get a passport, a service account or a sidecar', async () => {
    const agent_id = await newAgent();
    await set(agent_id, true);
    const refusals = [
      await refusalOf(issue(agent_id)),
      await refusalOf(
        gateway.owner.call(createServiceAccount, { body: { agent_id, name: 'ci' } as never }),
      ),
      await refusalOf(
        gateway.owner.call(createEnrolmentToken, {
          body: { agent_id: String(agent_id), user_id: 'u' } as never,
        }),
      ),
    ];
    expect(refusals.map(({ code }) => code)).toEqual(Array(3).fill('agent.disabled'));
    expect(refusals.map(({ details }) => details?.status)).toEqual([403, 403, 403]);
  });

  it('cannot use its earlier passports after it is enabled again', async () => {
    const id = await newAgent();
    const { token: passport, claims } = await issue(id);
    await set(id, true, gateway.owner, 'odd');
    const enabled = await set(id, false);
    expect(enabled).toMatchObject({ status: 'active' });
    expect(enabled).not.toHaveProperty('disabled_at');
    const answer = await gateway.post('/v1/actions/preflight', action(id, { passport }));
    expect(answer).toMatchObject({ status: 403, body: { reason_code: 'passport.revoked' } });
    const report = await gateway.owner.call(verifyPassport, { body: { passport } });
    expect(report.errors.map(({ reason_code }) => reason_code)).toEqual(['passport.revoked']);
    const without = await gateway.owner.call(preflight, { body: action(id) });
    expect(without).toMatchObject({ decision: 'allow' });
    const events = await eventsOf(gateway.services, 'default');
    expect(
      events
        .filter(({ chain_id: chain, type }) => chain === `agent:${id}` && type.startsWith('agent.'))
        .map(({ type, data }) => [type, data.by, data.reason, data.revoked_jtis]),
    ).toEqual([
      ['agent.registered', 'owner', undefined, undefined],
      ['agent.disabled', 'owner', 'odd', [claims.jti]],
      ['agent.enabled', 'owner', undefined, undefined],
    ]);
  });

  it('cannot use a passport that was issued concurrently with the disabling', async () => {
    const id = await newAgent();
    const issuing = Array.from({ length: 20 }, () => issue(id).catch(() => undefined));
    await set(id, true);
    const issued = (await Promise.all(issuing)).filter((one) => one !== undefined);
    await set(id, false);
    for (const { token: passport } of issued) {
      const report = await gateway.owner.call(verifyPassport, { body: { passport } });
      expect(report.valid).toBe(false);
    }
  });

  it('is not changed by a second disable request or by a new registration', async () => {
    const id = await newAgent();
    const first = await set(id, true, gateway.owner, 'first');
    gateway.services.clock.advance(1_000);
    expect(await set(id, true, gateway.owner, 'second')).toEqual(first);
    const again = await gateway.post('/v1/agents/register', {
      name: `status ${agents}`,
      capabilities: ['**'],
    });
    expect(again.body).toMatchObject({ agent_id: id, status: 'disabled' });
    const events = await eventsOf(gateway.services, 'default');
    const disabled = events.filter(
      ({ type, agent_id }) => type === 'agent.disabled' && agent_id === String(id),
    );
    expect(disabled).toHaveLength(1);
  });

  it('cannot be enabled with a key that is bound to an agent', async () => {
    const id = await newAgent();
    await set(id, true);
    for (const agentId of [id, await newAgent()]) {
      const bound = await gateway.as({ role: 'admin', agentId });
      expect((await refusalOf(set(id, false, bound))).code).toBe('agent.mismatch');
    }
    expect(await gateway.owner.call(getAgent, { params: { id } })).toMatchObject({
      status: 'disabled',
    });
  });
});

describe('the agent operations', () => {
  it('list agents in pages, in order of creation, filtered by status and kind', async () => {
    const owner = await gateway.as({ tenantId: 'other' });
    const key = await gateway.api.key({ tenantId: 'other' });
    const ids: number[] = [];
    for (let n = 0; n < 5; n++) {
      const kind = n % 2 === 0 ? 'even' : 'odd';
      const body = { name: `listed ${n}`, kind, capabilities: [] };
      const answer = await gateway.post('/v1/agents/register', body, key);
      ids.push(Number(answer.body?.agent_id));
    }
    await set(ids[4] ?? 0, true, owner);
    const seen: number[] = [];
    let cursor: string | null = null;
    do {
      const query: string = cursor === null ? '?limit=2' : `?limit=2&cursor=${cursor}`;
      const page = await gateway.api.send('GET', `/api/v1/agents${query}`, { key });
      const body = page.body as {
        agents: { agent_id: number }[];
        next_cursor: string | null;
      };
      seen.push(...body.agents.map(({ agent_id }) => agent_id));
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(ids);
    const idsOf = async (query: object) =>
      (await owner.call(listAgents, { query: query as never })).agents.map((one) => one.agent_id);
    expect(await idsOf({ status: 'disabled' })).toEqual([ids[4]]);
    expect(await idsOf({ kind: 'even', status: 'active' })).toEqual([ids[0], ids[2]]);
  });

  it.each([
    ['developer', 'owner', false],
    ['developer', 'admin', false],
    ['admin', 'owner', false],
    ['admin', 'admin', true],
    ['owner', 'admin', true],
    ['developer', 'developer', true],
  ] as const)(
    'check whether the role %s may enable an agent that the role %s disabled (expected: %s)',
    async (enabler, disabler, allowed) => {
      const id = await newAgent();
      await set(id, true, await gateway.as({ role: disabler }));
      const enabling = set(id, false, await gateway.as({ role: enabler }));
      if (allowed) {
        expect(await enabling).toMatchObject({ status: 'active' });
        return;
      }
      const error = await refusalOf(enabling);
      expect([error.code, error.details?.status]).toEqual(['agent.disabled_by_higher_role', 403]);
      expect(error.message).toContain(`the role ${disabler}`);
      const agent = await gateway.owner.call(getAgent, { params: { id } });
      expect(agent).toMatchObject({ status: 'disabled' });
    },
  );

  it('do not let a developer enable an agent that the developer disabled first and an owner disabled later', async () => {
    const id = await newAgent();
    const developer = await gateway.as({ role: 'developer', principal: 'dev' });
    await set(id, true, developer);
    const olga = await gateway.as({ role: 'owner', principal: 'olga' });
    expect(await set(id, true, olga)).toMatchObject({ disabled_by: 'olga' });
    // A developer's later request does not replace the owner in `disabled_by`.
    expect(await set(id, true, developer)).toMatchObject({ disabled_by: 'olga' });
    const error = await refusalOf(set(id, false, developer));
    expect(error.code).toBe('agent.disabled_by_higher_role');
  });

  it('treat a disabled agent as disabled by an owner if the disabling role was not recorded', async () => {
    const id = await newAgent();
    await set(id, true, await gateway.as({ role: 'developer' }));
    const where = { tenantId_id: { tenantId: 'default', id } };
    await gateway.services.db.agent.update({ where, data: { disabledByRole: null } });
    const admin = await gateway.as({ role: 'admin' });
    expect((await refusalOf(set(id, false, admin))).code).toBe('agent.disabled_by_higher_role');
    expect(await set(id, false, gateway.owner)).toMatchObject({ status: 'active' });
  });

  it('do not enable an agent whose disabling role was changed directly in the database', async () => {
    const id = await newAgent();
    await set(id, true, gateway.owner);
    const sql = `update agent set disabled_by_role = 'developer' where id = $1`;
    await gateway.services.pool.query(sql, [id]);
    const developer = await gateway.as({ role: 'developer' });
    expect((await refusalOf(set(id, false, developer))).code).toBe('integrity.forged_row');
  });

  it.each(['limit=0', 'limit=1001', 'cursor=x', 'status=gone', 'nonsense=1'])(
    'refuse the query %s',
    async (query) => {
      const key = await gateway.api.key();
      const answer = await gateway.api.send('GET', `/api/v1/agents?${query}`, { key });
      expect(answer).toMatchObject({ status: 400, body: { reason_code: 'request.invalid' } });
    },
  );

  it('return only the key’s own agent if the key is bound to an agent', async () => {
    const [own, another] = [await newAgent(), await newAgent()];
    const bound = await gateway.as({ role: 'developer', agentId: own });
    const { agents } = await bound.call(listAgents, { query: {} as never });
    expect(agents.map(({ agent_id }) => agent_id)).toEqual([own]);
    expect(await bound.call(getAgent, { params: { id: own } })).toMatchObject({ agent_id: own });
    const error = await refusalOf(bound.call(getAgent, { params: { id: another } }));
    expect([error.code, error.details?.status]).toEqual(['agent.mismatch', 403]);
  });

  it('return 404 for an unknown agent, and 400 for an invalid id or change', async () => {
    const key = await gateway.api.key();
    const answers = await Promise.all([
      gateway.api.send('GET', '/api/v1/agents/2147483647', { key }),
      gateway.api.send('PATCH', '/api/v1/agents/2147483647', { key, body: { disabled: true } }),
      gateway.api.send('GET', '/api/v1/agents/9223372036854775808', { key }),
      gateway.api.send('PATCH', `/api/v1/agents/${await newAgent()}`, { key, body: {} }),
      gateway.api.send('PATCH', '/api/v1/agents/1', { key, body: { disabled: 'yes' } }),
    ]);
    expect(answers.map(({ status, body }) => [status, body?.reason_code])).toEqual([
      [404, 'agent.not_found'],
      [404, 'agent.not_found'],
      [400, 'request.invalid'],
      [400, 'args.schema_invalid'],
      [400, 'args.schema_invalid'],
    ]);
  });
});
