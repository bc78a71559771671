import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../control-plane/actions/preflight.ts';
import { agentRoutes } from '../../../control-plane/agents/routes.ts';
import { killSwitchRoutes } from '../../../control-plane/kill-switches/routes.ts';
import { builders } from '../../../control-plane/publishing/build-sections.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const { services, api, moved, close } = await startWatchedApi((given) => [
  ...killSwitchRoutes(given),
  ...agentRoutes(given),
]);
const { clock } = services;
afterAll(close);

const path = '/api/v1/runtime/kill-switches';
const keys = new Map<string, string>();
const agents = new Map<string, string>();
async function tenant(tenantId: string): Promise<void> {
  await services.db.tenant.upsert({
    where: { id: tenantId },
    update: {},
    create: { id: tenantId, name: tenantId },
  });
  const key = await api.key({ tenantId, principal: 'alice' });
  keys.set(tenantId, key);
  const body = { name: 'bot', capabilities: ['**'] };
  const agent = await api.send('POST', '/api/v1/agents/register', { key, body });
  agents.set(tenantId, String(agent.body?.agent_id));
}
beforeAll(async () => {
  for (const id of ['t1', 't2', 't3', 't4', 't5', 't6', 't7']) await tenant(id);
});

const keyOf = (tenantId: string) => keys.get(tenantId) ?? '';
const agentOf = (tenantId: string) => agents.get(tenantId) ?? '';
const arm = (tenantId: string, body: object) =>
  api.send('POST', path, { key: keyOf(tenantId), body: { reason: 'incident 12', ...body } });
const disarm = (tenantId: string, id: unknown) =>
  api.send('DELETE', `${path}/${id}`, { key: keyOf(tenantId) });
const list = async (tenantId: string, query = '') => {
  const answer = await api.send('GET', `${path}${query}`, { key: keyOf(tenantId) });
  return answer.body?.kill_switches as Record<string, unknown>[];
};
const published = async (tenantId: string) => {
  const { killSwitches } = await services.db.$transaction((tx) =>
    builders.kill_switches({ ...services, tx, tenantId, nowMs: clock.now() }),
  );
  return killSwitches.map(({ id }) => id);
};
const decisionOn = async (tenantId: string, more: object = {}) => {
  const caller = { tenantId, principal: 'alice', role: 'owner', keyId: 'k' } as never;
  const request = { tool: 'pay', resource: 'r', agent_id: agentOf(tenantId), user_id: 'u' };
  return preflight(services, caller, { ...request, ...more } as never);
};

describe('a kill switch', () => {
  it('is listed and published while it is armed, and both arming and disarming are recorded', async () => {
    const armed = await arm('t1', { kind: 'block_tool', tool: 'payments.*' });
    expect(armed.status).toBe(201);
    expect(armed.body).toMatchObject({
      kind: 'block_tool',
      status: 'armed',
      tool: 'payments.*',
      reason: 'incident 12',
      armed_by: 'alice',
    });
    const { warnings: _, ...record } = armed.body ?? {};
    expect(await list('t1')).toEqual([record]);
    expect(await published('t1')).toEqual([armed.body?.id]);

    const disarmed = await disarm('t1', armed.body?.id);
    expect(disarmed.body).toMatchObject({ status: 'disarmed', disarmed_by: 'alice' });
    expect(await list('t1')).toEqual([]);
    expect(await list('t1', '?status=all')).toEqual([disarmed.body]);
    expect(await published('t1')).toEqual([]);
    expect(moved.filter((section) => section === 't1 kill_switches')).toHaveLength(2);
    const events = (await eventsOf(services, 't1')).filter(({ type }) => type.startsWith('kill'));
    expect(events.map(({ type }) => type)).toEqual(['kill_switch.armed', 'kill_switch.disarmed']);
    expect(events[0]).toMatchObject({ tool: 'payments.*', data: { by: 'alice' } });
  });

  it('can be disarmed twice: the second request returns the first result and records no event', async () => {
    const armed = await arm('t2', { kind: 'block_tool', tool: 'x' });
    const first = await disarm('t2', armed.body?.id);
    clock.advance(1_000);
    expect((await disarm('t2', armed.body?.id)).body).toEqual(first.body);
    const types = (await eventsOf(services, 't2')).map(({ type }) => type);
    expect(types.filter((type) => type === 'kill_switch.disarmed')).toHaveLength(1);
  });

  it('is armed once by repeated requests with one idempotency key; a repeated request with a different payload is refused', async () => {
    const body = { kind: 'block_agent', agent_id: agentOf('t3'), idempotency_key: 'once' };
    const answers = await Promise.all([arm('t3', body), arm('t3', body), arm('t3', body)]);
    expect(new Set(answers.map((answer) => answer.body?.id)).size).toBe(1);
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(await list('t3')).toHaveLength(1);
    const other = await arm('t3', { ...body, reason: 'another' });
    expect([other.status, other.body?.reason_code]).toEqual([400, 'args.idempotency_conflict']);
  });

  it('blocks decisions of its own tenant only, as soon as the response is sent and until it is disarmed', async () => {
    const armed = await arm('t4', { kind: 'block_tool', tool: '**', agent_id: agentOf('t4') });
    expect(await decisionOn('t4', { mode: 'monitor' })).toMatchObject({
      decision: 'deny',
      reason_code: 'runtime.kill_switch',
      enforced: true,
    });
    expect((await decisionOn('t5')).reason_code).toBe('policy.no_match');
    await disarm('t4', armed.body?.id);
    expect((await decisionOn('t4')).reason_code).toBe('policy.no_match');
  });

  it('blocks nothing after its expiry, is not listed or published, and is reported as expired', async () => {
    const expires_at = new Date(clock.now() + 60_000).toISOString();
    const armed = await arm('t6', { kind: 'block_tool', tool: 'pay', expires_at });
    expect((await decisionOn('t6')).reason_code).toBe('runtime.kill_switch');
    clock.advance(60_000);
    expect((await decisionOn('t6')).reason_code).toBe('policy.no_match');
    expect(await list('t6')).toEqual([]);
    expect(await published('t6')).toEqual([]);
    expect(await list('t6', '?status=all')).toMatchObject([
      { id: armed.body?.id, status: 'expired' },
    ]);
  });

  it('makes the mode of a request stricter, never looser, if its kind is force_mode', async () => {
    await arm('t7', { kind: 'force_mode', mode: 'warn' });
    expect(await decisionOn('t7', { mode: 'enforce' })).toMatchObject({ mode: 'enforce' });
    await arm('t7', { kind: 'force_mode', mode: 'strict', tool: 'pay' });
    await expect(decisionOn('t7', { mode: 'monitor' })).rejects.toMatchObject({
      code: 'passport.missing',
    });
    expect(await decisionOn('t7', { mode: 'monitor', tool: 'other' })).toMatchObject({
      mode: 'warn',
    });
  });
});

describe('a malformed kill switch', () => {
  it.each<[string, object, string]>([
    ['an unknown kind', { kind: 'block_user' }, 'args.schema_invalid'],
    ['block_tool without a tool', { kind: 'block_tool' }, 'kill_switch.invalid'],
    ['block_agent without an agent', { kind: 'block_agent' }, 'kill_switch.invalid'],
    ['force_mode without a mode', { kind: 'force_mode' }, 'kill_switch.invalid'],
    [
      'force_mode with a looser mode',
      { kind: 'force_mode', mode: 'monitor' },
      'args.schema_invalid',
    ],
    ['an empty tool', { kind: 'block_tool', tool: '' }, 'args.schema_invalid'],
    ['two tools in one field', { kind: 'block_tool', tool: 'a b' }, 'args.schema_invalid'],
    [
      'a mode with a kind other than force_mode',
      { kind: 'block_tool', tool: 'a', mode: 'strict' },
      'kill_switch.invalid',
    ],
    [
      'block_agent with a tool',
      { kind: 'block_agent', agent_id: '1', tool: 'a' },
      'kill_switch.invalid',
    ],
    [
      'an expiry in the past',
      { kind: 'block_tool', tool: 'a', expires_at: '2020-01-01T00:00:00Z' },
      'kill_switch.invalid',
    ],
    [
      'an invalid time',
      { kind: 'block_tool', tool: 'a', expires_at: 'tomorrow' },
      'args.schema_invalid',
    ],
    ['no reason', { kind: 'block_tool', tool: 'a', reason: '' }, 'args.schema_invalid'],
    ['a misspelt field', { kind: 'block_tool', tool: 'a', expires: 1 }, 'args.schema_invalid'],
  ])('is refused: %s', async (_what, body, code) => {
    const answer = await arm('t5', body);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, code]);
    expect(await list('t5', '?status=all')).toEqual([]);
  });

  it('is refused with an error that names the missing field and the field’s type', async () => {
    expect((await arm('t5', { kind: 'block_tool' })).body?.error).toBe(
      'tool: block_tool needs the id of a tool, or a glob such as payments.*.',
    );
  });

  it.each(['999999', '01', 'nobody'])('is refused for an unknown agent: %s', async (agent_id) => {
    const answer = await arm('t5', { kind: 'block_agent', agent_id });
    expect([answer.status, answer.body?.reason_code]).toEqual([404, 'agent.not_found']);
  });

  it('is refused for another tenant’s agent', async () => {
    const answer = await arm('t5', { kind: 'block_agent', agent_id: agentOf('t1') });
    expect([answer.status, answer.body?.reason_code]).toEqual([404, 'agent.not_found']);
  });
});
