import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { issueAgentPassport } from '../../../shared/contract/agent-passports.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import { verifyPassport } from '../../../shared/contract/passports.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

async function register(body: object, client = gateway.owner) {
  return client.call(registerAgent, { body: { name: 'bot', capabilities: ['a.*'], ...body } });
}

async function events(agentId: number) {
  const rows = await gateway.services.db.evidenceRow.findMany({
    where: { tenantId: 'default', chainId: `agent:${agentId}` },
    orderBy: { seq: 'asc' },
  });
  return rows.map(({ type, eventId, canonical }) => ({
    type,
    eventId,
    data: JSON.parse(canonical).data as Record<string, unknown>,
  }));
}

describe('registering an agent', () => {
  it('assigns an integer id and the default kind, and records an event', async () => {
    const agent = await register({ name: 'first', goal: 'Help' });
    expect(agent).toMatchObject({ kind: 'ai_developer', blast_radius: 'medium', goal: 'Help' });
    expect(Number.isInteger(agent.agent_id)).toBe(true);
    expect(await events(agent.agent_id)).toMatchObject([
      { type: 'agent.registered', data: { by: 'owner', capabilities: ['a.*'] } },
    ]);
  });

  it('returns 201 for a valid agent, and 400 args.schema_invalid for an invalid agent', async () => {
    const answers = await Promise.all(
      [
        { name: 'status', capabilities: [] },
        { capabilities: ['a'] },
        { name: 'x'.repeat(101), capabilities: ['a'] },
        { name: 'x', capabilities: 'a' },
        { name: 'x', kind: 'k'.repeat(31), capabilities: ['a'] },
        { name: 'nul\0', capabilities: ['a'] },
        { name: '\ud800', capabilities: ['a'] },
        { name: 'x', capabilities: ['a'], blastRadius: 'huge' },
      ].map((body) => gateway.post('/v1/agents/register', body)),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, ...Array(7).fill(400)]);
    expect(answers.at(-1)?.body).toMatchObject({ reason_code: 'args.schema_invalid' });
  });

  it('updates the capabilities of an existing agent with the same name and kind', async () => {
    const one = await register({ name: 'again', goal: 'Keep me' });
    const two = await register({ name: 'again', capabilities: ['b', 'b'] });
    expect(two).toMatchObject({ agent_id: one.agent_id, capabilities: ['b'], goal: 'Keep me' });
    const other = await register({ name: 'again', kind: 'support' });
    expect(other.agent_id).not.toBe(one.agent_id);
  });

  it('creates one agent for many concurrent registrations of one name', async () => {
    const ids = await Promise.all(
      Array.from({ length: 8 }, async () => (await register({ name: 'race' })).agent_id),
    );
    expect(new Set(ids).size).toBe(1);
  });
});

describe('a passport for an agent', () => {
  const issue = (body: object, client = gateway.owner) =>
    client.call(issueAgentPassport, { body: body as never });

  it('grants only the agent’s capabilities, and contains the hash of the published policies', async () => {
    await gateway.publish(rule('allow', 'a.b'));
    const { agent_id } = await register({ name: 'clamped', capabilities: ['a.*'], goal: 'Help' });
    const requested_tools = ['a.b', 'c', '**', 'a.**'];
    const issued = await issue({ agent_id, requested_tools });
    expect(issued.claims).toMatchObject({
      sub: String(agent_id),
      aud: 'gateway://agents',
      tenant_id: 'default',
      allowed_tools: ['a.b'],
      goal: 'Help',
      risk_tier: 'medium',
      policy_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    });
    expect(issued.claims.exp - issued.claims.iat).toBe(300);
    const [, event] = await events(agent_id);
    expect(event).toMatchObject({
      type: 'passport.issued',
      eventId: issued.evidence_id,
      data: { jti: issued.claims.jti, issued_by: 'owner' },
    });
    const report = await gateway.owner.call(verifyPassport, { body: { passport: issued.token } });
    expect(report).toMatchObject({ valid: true, errors: [] });
  });

  it('is refused if no requested tool is within the agent’s capabilities', async () => {
    const { agent_id } = await register({ name: 'narrow', capabilities: ['a.b'] });
    const error = await refusalOf(issue({ agent_id, requested_tools: ['a.*', 'b'] }));
    expect(error.code).toBe('passport.tool_not_allowed');
    expect(error.details).toMatchObject({ status: 403 });
  });

  it('is refused for an agent that is unknown, disabled or of another tenant', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const { agent_id } = await register({ name: 'mine' });
    const asked = { requested_tools: ['a.b'] };
    const codes = [
      await refusalOf(issue({ ...asked, agent_id }, stranger)),
      await refusalOf(issue({ ...asked, agent_id: 2_147_483_647 })),
    ].map(({ code }) => code);
    await gateway.services.db.agent.update({
      where: { id: agent_id },
      data: { disabledAt: new Date() },
    });
    codes.push((await refusalOf(issue({ ...asked, agent_id }))).code);
    expect(codes).toEqual(['agent.not_found', 'agent.not_found', 'agent.disabled']);
  });

  it.each([4, 3601, 0, -5])('is refused for a lifetime of %s seconds', async (ttl_seconds) => {
    const { agent_id } = await register({ name: 'lifetimes' });
    const error = await refusalOf(issue({ agent_id, requested_tools: ['a.b'], ttl_seconds }));
    expect(error.code).toBe('passport.ttl_invalid');
  });

  it('is refused if the caller’s key is bound to another agent', async () => {
    const { agent_id } = await register({ name: 'bound' });
    const { agent_id: another } = await register({ name: 'another' });
    const bound = await gateway.as({ role: 'agent', agentId: agent_id, principal: 'bot' });
    const requested_tools = ['a.b'];
    const error = await refusalOf(issue({ agent_id: another, requested_tools }, bound));
    expect(error.code).toBe('agent.mismatch');
    expect(await issue({ agent_id, requested_tools }, bound)).toHaveProperty('token');
    const asAnother = await refusalOf(issue({ agent_id, requested_tools, user_id: 'ceo' }, bound));
    expect(asAnother.code).toBe('passport.user_mismatch');
  });

  it('is refused if the caller’s key has role agent but is bound to no agent', async () => {
    const { agent_id } = await register({ name: 'unbound' });
    const unbound = await gateway.as({ role: 'agent' });
    const error = await refusalOf(issue({ agent_id, requested_tools: ['a.b'] }, unbound));
    expect(error.code).toBe('auth.insufficient_permission');
  });
});
