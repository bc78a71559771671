import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { issueAgentPassport, validateAgent } from '../../../shared/contract/agent-passports.ts';
import { registerAgent, updateAgent } from '../../../shared/contract/agents.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let agent_id: number;
beforeAll(async () => {
  gateway = await startGateway();
  await gateway.publish(rule('allow', 'pay'));
  agent_id = Number(await gateway.agent('validated', ['pay', 'mail']));
});
afterAll(() => gateway.close());

const issue = async (more: object = {}) => {
  const body = { agent_id, requested_tools: ['pay', 'mail'], ...more } as never;
  return gateway.owner.call(issueAgentPassport, { body });
};
const validate = (more: object = {}) =>
  gateway.owner.call(validateAgent, { body: { agent_id, ...more } as never });
const codes = ({ errors }: Awaited<ReturnType<typeof validate>>) =>
  errors.map(({ reason_code }) => reason_code);

describe('validating an agent', () => {
  it('returns the status and the capabilities of an active agent', async () => {
    expect(await validate()).toEqual({
      valid: true,
      agent_id,
      status: 'active',
      capabilities: ['pay', 'mail'],
      errors: [],
    });
  });

  it('does not consume a passport', async () => {
    const { token: passport, claims } = await issue();
    for (let n = 0; n < 3; n++) {
      const report = await validate({ passport, audience: 'gateway://agents' });
      expect(report).toMatchObject({ valid: true, claims, effective_tools: ['pay', 'mail'] });
    }
    const used = await gateway.post('/v1/actions/preflight', {
      tool: 'pay',
      resource: 'r',
      agent_id: String(agent_id),
      user_id: 'u',
      passport,
    });
    expect(used.status).toBe(200);
    expect(codes(await validate({ passport }))).toEqual(['passport.replay_detected']);
  });

  it('returns every failed check of a passport, and accepts any string as input', async () => {
    const { token: passport } = await issue({ ttl_seconds: 5 });
    gateway.services.clock.advance(6_000);
    const report = await validate({ passport, audience: 'elsewhere' });
    expect(codes(report)).toEqual(['passport.expired', 'passport.audience_mismatch']);
    expect(report.valid).toBe(false);
    for (const nonsense of ['', 'x', 'a.b.c']) {
      expect(codes(await validate({ passport: nonsense }))).toEqual(['passport.malformed']);
    }
  });

  it('returns the passport’s tools that are still within the agent’s reduced capabilities', async () => {
    const body = (capabilities: string[]) => ({ name: 'shrinking', capabilities }) as never;
    const { agent_id: id } = await gateway.owner.call(registerAgent, {
      body: body(['pay', 'mail']),
    });
    const { token: passport } = await issue({ agent_id: id });
    await gateway.owner.call(registerAgent, { body: body(['mail']) });
    expect(await validate({ agent_id: id, passport })).toMatchObject({
      valid: true,
      effective_tools: ['mail'],
    });
    await gateway.owner.call(registerAgent, { body: body(['other']) });
    const none = await validate({ agent_id: id, passport });
    expect(none.effective_tools).toEqual([]);
    expect(codes(none)).toEqual(['passport.tool_not_allowed']);
  });

  it('reveals nothing about the passport of another agent', async () => {
    const another = Number(await gateway.agent('another', ['pay']));
    const { token: passport } = await issue({ agent_id: another, purpose: 'private' });
    const report = await validate({ passport });
    expect(codes(report)).toEqual(['passport.agent_mismatch']);
    expect(JSON.stringify(report)).not.toContain('private');
  });

  it('returns the status of a disabled agent', async () => {
    const id = Number(await gateway.agent('disabled', ['pay']));
    await gateway.owner.call(updateAgent, { params: { id }, body: { disabled: true } });
    const report = await validate({ agent_id: id });
    expect(report).toMatchObject({ valid: false, status: 'disabled' });
    expect(codes(report)).toEqual(['agent.disabled']);
  });

  it('returns 404 for an unknown agent, and 400 for an invalid request', async () => {
    const unknown = await refusalOf(validate({ agent_id: 2_147_483_647 }));
    expect([unknown.code, unknown.details?.status]).toEqual(['agent.not_found', 404]);
    for (const more of [{ agent_id: '1' }, { agent_id: 0 }, { passport: 1 }, { other: 1 }]) {
      expect((await refusalOf(validate(more))).code).toBe('args.schema_invalid');
    }
  });
});
