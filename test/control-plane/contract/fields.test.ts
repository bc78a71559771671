import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let agent_id: number;
beforeAll(async () => {
  gateway = await startGateway();
  agent_id = Number(await gateway.agent('contract', ['**']));
  await gateway.publish(rule('allow'));
});
afterAll(() => gateway.close());

const issueBody = () => ({
  tenant_id: 'default',
  agent_id: String(agent_id),
  user_id: 'u',
  goal: 'g',
  allowed_tools: ['pay'],
  allowed_resources: ['payment:*'],
  resource_constraints: {},
  risk_tier: 'low',
  policy_id: 'p',
  approval_hash: null,
  audience: 'gateway://agents',
  ttl_seconds: 60,
});

/** For each operation of contract sections 4.1 and 4.4: the required fields, and a body with all fields. */
const bodies = {
  '/v1/actions/preflight': [
    ['tool', 'resource', 'agent_id', 'user_id'],
    () => ({
      tool: 'pay',
      resource: 'payment:1',
      args: {},
      agent_id: String(agent_id),
      agent_name: 'contract',
      user_id: 'u',
      goal: 'g',
      mode: 'enforce',
      audience: 'gateway://agents',
      idempotency_key: 'contract',
    }),
    200,
  ],
  '/v1/passports/issue': [
    [
      'tenant_id',
      'agent_id',
      'user_id',
      'goal',
      'allowed_tools',
      'risk_tier',
      'policy_id',
      'audience',
      'ttl_seconds',
    ],
    issueBody,
    200,
  ],
  '/v1/passports/verify': [
    ['passport'],
    () => ({ passport: 'x', audience: 'gateway://agents' }),
    200,
  ],
  '/v1/passports/revoke': [['jti'], () => ({ jti: 'pp_x', reason: 'r' }), 200],
  '/v1/tools/ingest': [
    ['manifest'],
    () => ({
      manifest: {
        name: 'contract.tool',
        description: 'd',
        serverOrigin: 'https://tool.example',
        protocol: 'mcp',
        publisherIdentity: 'p',
        publisherVerified: true,
        inputSchema: { type: 'object' },
        outputSchema: { type: 'object' },
        oauthScopes: ['a'],
        sideEffectProfile: ['read'],
        riskTier: 'low',
        executionCapability: 'none',
        sensitiveDataExposure: 'none',
      },
    }),
    200,
  ],
  '/v1/tools/diff': [
    ['before', 'after'],
    () => ({ before: { name: 'a' }, after: { name: 'a', riskTier: 'high' } }),
    200,
  ],
  '/v1/agents/register': [
    ['name', 'capabilities'],
    () => ({
      name: 'contract',
      capabilities: ['**'],
      kind: 'ai_developer',
      goal: 'g',
      blastRadius: 'low',
    }),
    201,
  ],
  '/v1/agents/issue-passport': [
    ['agent_id', 'requested_tools'],
    () => ({
      agent_id,
      requested_tools: ['pay'],
      requested_resources: ['payment:*'],
      resource_constraints: { max_amount: 1 },
      ttl_seconds: 60,
      purpose: 'p',
      audience: 'gateway://agents',
      risk_tier: 'low',
    }),
    201,
  ],
} as const;

describe.each(Object.entries(bodies))('%s', (path, [required, body, status]) => {
  it('accepts every field of the contract, and refuses a body without a required field', async () => {
    const whole: Record<string, unknown> = body();
    expect((await gateway.post(path, whole)).status).toBe(status);
    for (const field of required) {
      const { [field]: _, ...less } = whole;
      const answer = await gateway.post(path, less);
      expect([field, answer.status, answer.body?.reason_code]).toEqual([
        field,
        400,
        'args.schema_invalid',
      ]);
    }
    for (const nonsense of ['[]', '"x"', '{', '']) {
      expect((await gateway.post(path, nonsense)).status).toBe(400);
    }
  });
});

describe('the reason codes of API contract section 7, over HTTP', () => {
  const ask = (more: object) =>
    gateway.post('/v1/actions/preflight', {
      tool: 'pay',
      resource: 'payment:1',
      args: {},
      agent_id: String(agent_id),
      user_id: 'u',
      ...more,
    });
  const ingest = (manifest: object) => gateway.post('/v1/tools/ingest', { manifest });

  it.each([
    ['args.amount_exceeds_limit', { max_amount: 10 }, { amount: 11 }],
    ['args.resource_out_of_scope', { customer_id: 'c1' }, { customer_id: 'c2' }],
    ['args.external_recipient', { allowed_domains: ['example.com'] }, { to: 'x@evil.example' }],
  ])(
    '%s is returned for arguments outside the constraints of the passport',
    async (code, limits, args) => {
      const body = { ...issueBody(), resource_constraints: limits };
      const { passport } = (await gateway.post('/v1/passports/issue', body)).body ?? {};
      expect(await ask({ args, passport })).toMatchObject({
        status: 200,
        body: { decision: 'deny', reason_code: code },
      });
    },
  );

  it.each([
    ['tool.manifest_changed', { vendorExtension: 'new' }],
    ['tool.oauth_scope_broadened', { oauthScopes: ['read', 'write'] }],
    ['tool.read_to_write_conversion', { sideEffectProfile: ['read', 'delete'] }],
  ])('%s is returned for a tool with the drift that this code names', async (code, change) => {
    const tool = `drift.${code}`;
    const approved = { name: tool, oauthScopes: ['read'], sideEffectProfile: ['read'] };
    await ingest(approved);
    expect((await ask({ tool })).body?.decision).toBe('allow');
    const drifted = await ingest({ ...approved, ...change });
    expect(drifted.body).toMatchObject({ approval_status: 'reapproval_required' });
    expect(await ask({ tool })).toMatchObject({
      status: 200,
      body: { decision: 'require_tool_reapproval', reason_code: code },
    });
    const key = await gateway.api.key();
    const told = await gateway.api.send('GET', `/api/v1/tools/${tool}`, { key });
    expect(told.body).toMatchObject({
      drift: [{ sentence: expect.stringMatching(/ \(\/\w+: .*\); it must be approved again\.$/) }],
    });
  });

  it('tool.reapproval_required is returned if the kind of drift is unknown', async () => {
    await ingest({ name: 'drift.unknown' });
    await gateway.services.db.tool.updateMany({
      where: { name: 'drift.unknown' },
      data: { approvalStatus: 'reapproval_required' },
    });
    expect(await ask({ tool: 'drift.unknown' })).toMatchObject({
      body: { decision: 'require_tool_reapproval', reason_code: 'tool.reapproval_required' },
    });
  });

  it('passport.missing and agent.not_found are returned in strict mode', async () => {
    expect(await ask({ mode: 'strict' })).toMatchObject({
      status: 401,
      body: { reason_code: 'passport.missing', decision: 'deny' },
    });
    expect(await ask({ mode: 'strict', agent_id: '2147483647' })).toMatchObject({
      status: 200,
      body: { reason_code: 'agent.not_found', decision: 'deny' },
    });
  });
});
