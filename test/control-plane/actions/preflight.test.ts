import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';
import { preflightStage } from './preflight-stage.ts';

const { gateway, agentId, policyHash, action, ask, sealed } = await preflightStage();
afterAll(() => gateway.close());

describe('preflight', () => {
  it('returns the policy’s decision with the ids of its evidence', async () => {
    const answer = await ask();
    expect(answer).toMatchObject({
      decision: 'allow',
      reason_code: 'test.allow',
      matched_rules: ['p1/allow pay'],
      chain_id: `agent:${agentId}`,
      policy_hash: policyHash,
      mode: 'enforce',
      enforced: true,
    });
    const { row, event } = await sealed(answer.evidence_event_id);
    expect(row).toMatchObject({
      type: 'decision',
      chainId: answer.chain_id,
      decision: 'allow',
      reasonCode: 'test.allow',
      tool: 'pay',
    });
    expect(event.data).toMatchObject({ policy_hash: policyHash, point: 'preflight' });
  });

  it('returns policy decisions with status 200, even denials', async () => {
    for (const [tool, decision] of [
      ['shell', 'deny'],
      ['mail', 'warn'],
      ['refund', 'require_approval'],
      ['unheard-of', 'deny'],
    ]) {
      const answer = await gateway.post('/v1/actions/preflight', action({ tool }));
      expect(answer).toMatchObject({ status: 200, body: { decision } });
    }
  });

  it('returns the same decision under its alias `decision`', async () => {
    const answer = await gateway.post('/v1/actions/decision', action());
    expect(answer).toMatchObject({ status: 200, body: { decision: 'allow' } });
  });

  it('stores the shape and a keyed digest of the arguments in the ledger, but not their values', async () => {
    const args = { iban: 'DE02120300000000202051', nested: { list: [1, 2] } };
    const one = await sealed((await ask({ args })).evidence_event_id);
    const two = await sealed((await ask({ args })).evidence_event_id);
    expect(one.row.canonical).not.toContain('DE0212');
    expect(one.event.data.args_shape).toEqual({ iban: 'string', nested: { list: ['number'] } });
    expect(one.event.data.args_digest).not.toBe(two.event.data.args_digest);
    const salts = await gateway.services.db.evidenceSalt.findMany({
      where: { eventId: { in: [one.row.eventId, two.row.eventId] } },
    });
    expect(salts).toHaveLength(2);
  });

  it.each([
    ['without a tool', { tool: undefined }],
    ['with an empty tool', { tool: '' }],
    ['with a tool name that is too long for an index', { tool: 't'.repeat(5000) }],
    ['with arguments that are not an object', { args: [1] }],
    ['with an unknown mode', { mode: 'off' }],
    ['with an agent id that is not a string', { agent_id: 7 }],
  ])('refuses a malformed request %s', async (_what, more) => {
    const answer = await gateway.post('/v1/actions/preflight', action(more));
    expect(answer).toMatchObject({ status: 400, body: { reason_code: 'args.schema_invalid' } });
  });

  it('applies a policy once it is published, and no longer applies it after it is archived', async () => {
    expect((await ask({ tool: 'later' })).reason_code).toBe('policy.no_match');
    await gateway.publish(rule('allow', 'later'));
    expect((await ask({ tool: 'later' })).decision).toBe('allow');
    const { db } = gateway.services;
    await db.policy.updateMany({ where: { name: 'policy 2' }, data: { lifecycle: 'archived' } });
    expect((await ask({ tool: 'later' })).reason_code).toBe('policy.no_match');
  });

  it('uses no policies and no agents of other tenants', async () => {
    const stranger = await gateway.as({ tenantId: 'other' });
    const answer = await ask({}, stranger);
    expect(answer).toMatchObject({ decision: 'deny', reason_code: 'policy.no_match' });
    const { row } = await sealed(answer.evidence_event_id, 'other');
    expect(row.tenantId).toBe('other');
  });

  it('refuses a request for an agent other than the agent that the key is bound to', async () => {
    const bound = await gateway.as({ role: 'agent', agentId: Number(agentId), principal: 'bot' });
    expect((await ask({}, bound)).decision).toBe('allow');
    const error = await refusalOf(ask({ agent_id: '999' }, bound));
    expect(error.code).toBe('agent.mismatch');
  });
});

describe('preflight with a requested mode', () => {
  it('reports the decision without enforcing it in modes monitor and warn', async () => {
    expect(await ask({ tool: 'shell', mode: 'monitor' })).toMatchObject({
      decision: 'deny',
      enforced: false,
    });
    expect(await ask({ tool: 'shell', mode: 'warn' })).toMatchObject({
      decision: 'warn',
      reason_code: 'test.deny',
      enforced: false,
    });
  });

  it('requires a passport and a registered agent in mode strict', async () => {
    const answer = await gateway.post('/v1/actions/preflight', action({ mode: 'strict' }));
    expect(answer).toMatchObject({
      status: 401,
      body: { reason_code: 'passport.missing', decision: 'deny' },
    });
    const unknown = await ask({ mode: 'strict', agent_id: 'nobody' });
    expect(unknown).toMatchObject({ decision: 'deny', reason_code: 'agent.not_found' });
  });

  it('opens no approval in mode monitor', async () => {
    const answer = await ask({ tool: 'refund', mode: 'monitor', resource: 'only-watched' });
    expect(answer.decision).toBe('require_approval');
    expect(answer.approval_request_id).toBeUndefined();
  });
});

describe('kill switches', () => {
  it.each(['monitor', 'enforce'])('deny an action in mode %s', async (mode) => {
    const { db } = gateway.services;
    const armed = await db.killSwitch.create({
      data: {
        id: `ks-${mode}`,
        tenantId: 'default',
        kind: 'block_tool',
        tool: 'pay',
        reason: 'incident',
        armedBy: 'owner',
      },
    });
    expect(await ask({ mode })).toMatchObject({
      decision: 'deny',
      reason_code: 'runtime.kill_switch',
      enforced: true,
    });
    await db.killSwitch.update({ where: { id: armed.id }, data: { disarmedAt: new Date() } });
    expect((await ask()).decision).toBe('allow');
  });
});

describe('a registered tool', () => {
  beforeEach(async () => {
    const inputSchema = {
      type: 'object',
      properties: { amount: { type: 'number' } },
      required: ['amount'],
    };
    await gateway.publish(rule('allow', 'typed'));
    const manifest = { name: 'typed', riskTier: 'low', inputSchema, description: 'one' };
    await gateway.owner.call(ingestTool, { body: { manifest } });
  });

  it('accepts only arguments that match its approved schema', async () => {
    expect((await ask({ tool: 'typed' })).decision).toBe('allow');
    expect(await ask({ tool: 'typed', args: { amount: 'five' } })).toMatchObject({
      decision: 'deny',
      reason_code: 'args.schema_invalid',
    });
  });

  it('requires reapproval after its manifest drifted', async () => {
    const manifest = { name: 'typed', riskTier: 'low', description: 'two' };
    const { manifest_hash } = await gateway.owner.call(ingestTool, { body: { manifest } });
    const answer = await ask({ tool: 'typed' });
    expect(answer).toMatchObject({
      decision: 'require_tool_reapproval',
      tool_manifest_hash: manifest_hash,
      reason_code: expect.stringMatching(/^tool\./),
    });
  });
});

describe('a decision that fails', () => {
  it('is recorded as a denial if a policy does not match its hash', async () => {
    const { db } = gateway.services;
    const stranger = await gateway.api.client(await gateway.api.key({ tenantId: 'other' }));
    const made = await db.policy.create({
      data: {
        tenantId: 'other',
        name: 'forged',
        definitionId: 'forged',
        version: 1,
        lifecycle: 'published',
        definition: JSON.stringify({ id: 'forged', version: 1, rules: [rule('allow')] }),
        policyHash: `sha256:${'0'.repeat(64)}`,
        createdBy: 'mallory',
      },
    });
    const error = await refusalOf(ask({}, stranger));
    expect(error.code).toBe('policy.load_failed');
    expect(error.details).toMatchObject({ decision: 'deny' });
    const { row } = await sealed(String(error.details?.evidence_event_id), 'other');
    expect(row).toMatchObject({ decision: 'deny', reasonCode: 'policy.load_failed' });
    await db.policy.delete({ where: { id: made.id } });
  });
});
