import { type Case, type Cases, failsWithout, refusesBodies, succeeds, yields } from './case.ts';
import { fresh, type Stage } from './stage.ts';

const noAgent = 2_147_483_647;

type MakeBody = (stage: Stage) => object | Promise<object>;

/**
 * Reason codes that name the step at which issuing a passport fails, each with a fault that causes the
 * failure.
 */
const faultsOnTheWay: readonly (readonly [string, (stage: Stage) => Promise<void>])[] = [
  ['agent.load_failed', ({ faults }) => faults.withoutTable('agent')],
  ['policy.load_failed', ({ faults }) => faults.withoutTable('policy')],
  ['passport.sign_failed', (stage) => stage.sealSigningKeyElsewhere()],
  ['passport.persist_failed', ({ faults }) => faults.unwritable('passport')],
  ['evidence.seal_failed', ({ faults }) => faults.unwritable('evidence_row')],
];

const failures = (body: MakeBody): readonly Case[] =>
  faultsOnTheWay.map(([reason, breakIt]) =>
    yields(500, reason, async (ask, stage) => {
      const given = { body: await body(stage) };
      await breakIt(stage);
      return ask(given);
    }),
  );

const mismatch = (body: MakeBody): Case =>
  yields(403, 'agent.mismatch', async (ask, stage) =>
    ask({ key: await stage.otherAgentsKey(), body: await body(stage) }),
  );

const asked = (agent_id: number | string, more: object = {}) => ({
  agent_id: Number(agent_id),
  requested_tools: ['pay'],
  ...more,
});

const registered = (more: object = {}) => ({
  name: fresh('registered'),
  capabilities: ['pay'],
  ...more,
});

/** Creates a key that is bound to the agent. */
const boundKey = ({ key, agentId }: Stage) =>
  key({ role: 'agent', agentId: Number(agentId), principal: 'bound' });

export const agentCases: Cases = {
  'POST /v1/agents/register': [
    succeeds(201, (ask) => ask({ body: registered() })),
    ...refusesBodies({ name: 'x' }, { capabilities: [] }),
    yields(402, 'plan.cap_reached', async (ask, { tenant, services }) => {
      const { id: tenantId, key } = await tenant('free');
      const data = Array.from({ length: 5 }, () => ({ tenantId, name: fresh('old') }));
      await services.db.agent.createMany({ data });
      return ask({ key, body: registered() });
    }),
    mismatch(() => registered()),
    yields(403, 'agent.widening_refused', async (ask, stage) => {
      const { id, key } = await stage.tenant();
      const bind = { tools: ['vault.*'], hosts: ['api.example'] };
      const body = { name: 'vault', secret: 's', inject: { in: 'bearer' }, bind };
      await stage.post('/credentials', body, key);
      const developer = await stage.key({ tenantId: id, role: 'developer' });
      return ask({ key: developer, body: registered({ capabilities: ['**'] }) });
    }),
  ],
  'POST /v1/agents/issue-passport': [
    succeeds(201, (ask, { agentId }) => ask({ body: asked(agentId) })),
    ...refusesBodies({ agent_id: 1 }, { requested_tools: ['pay'] }),
    yields(400, 'passport.ttl_invalid', (ask, { agentId }) =>
      ask({ body: asked(agentId, { ttl_seconds: 1 }) }),
    ),
    yields(403, 'passport.tool_not_allowed', async (ask, stage) => {
      const { body } = await stage.post('/agents/register', registered());
      return ask({ body: asked(Number(body?.agent_id), { requested_tools: ['shell'] }) });
    }),
    yields(403, 'passport.user_mismatch', async (ask, stage) =>
      ask({ key: await boundKey(stage), body: asked(stage.agentId, { user_id: 'ceo' }) }),
    ),
    yields(403, 'agent.disabled', async (ask, { disabledAgent }) =>
      ask({ body: asked(await disabledAgent()) }),
    ),
    mismatch(({ agentId }) => asked(agentId)),
    yields(404, 'agent.not_found', (ask) => ask({ body: asked(noAgent) })),
    ...failures(({ agentId }) => asked(agentId)),
  ],
  'POST /v1/passports/issue': [
    succeeds(200, (ask, { passportBody }) => ask({ body: passportBody() })),
    ...refusesBodies({ agent_id: '1' }),
    yields(400, 'passport.ttl_invalid', (ask, { passportBody }) =>
      ask({ body: passportBody({ ttl_seconds: 1 }) }),
    ),
    yields(403, 'tenant.mismatch', (ask, { passportBody }) =>
      ask({ body: passportBody({ tenant_id: 'other' }) }),
    ),
    yields(403, 'passport.tool_not_allowed', async (ask, stage) => {
      const { body } = await stage.post('/agents/register', registered());
      const agent_id = String(body?.agent_id);
      return ask({ body: stage.passportBody({ agent_id, allowed_tools: ['shell'] }) });
    }),
    yields(403, 'passport.user_mismatch', async (ask, stage) =>
      ask({ key: await boundKey(stage), body: stage.passportBody({ user_id: 'ceo' }) }),
    ),
    yields(403, 'agent.disabled', async (ask, { passportBody, disabledAgent }) =>
      ask({ body: passportBody({ agent_id: String(await disabledAgent()) }) }),
    ),
    mismatch(({ passportBody }) => passportBody()),
    ...failures(({ passportBody }) => passportBody()),
  ],
  'POST /v1/agents/validate': [
    succeeds(200, (ask, { agentId }) => ask({ body: { agent_id: Number(agentId) } })),
    succeeds(200, async (ask, { agentId, issue }) =>
      ask({ body: { agent_id: Number(agentId), passport: await issue() } }),
    ),
    succeeds(200, (ask, { agentId }) =>
      ask({ body: { agent_id: Number(agentId), passport: 'x' } }),
    ),
    ...refusesBodies({}, { agent_id: 0 }),
    mismatch(({ agentId }) => ({ agent_id: Number(agentId) })),
    yields(404, 'agent.not_found', (ask) => ask({ body: { agent_id: noAgent } })),
    failsWithout('agent', 'agent.load_failed', (ask, { agentId }) =>
      ask({ body: { agent_id: Number(agentId) } }),
    ),
  ],
  'POST /v1/agents/service-accounts': [
    succeeds(201, (ask, { agentId }) =>
      ask({ body: { agent_id: Number(agentId), name: fresh('ci') } }),
    ),
    ...refusesBodies({ name: 'ci' }, { agent_id: 1, name: 'ci', role: 'owner' }),
    yields(403, 'agent.disabled', async (ask, { disabledAgent }) =>
      ask({ body: { agent_id: await disabledAgent(), name: 'ci' } }),
    ),
    mismatch(({ agentId }) => ({ agent_id: Number(agentId), name: 'ci' })),
    yields(404, 'agent.not_found', (ask) => ask({ body: { agent_id: noAgent, name: 'ci' } })),
    yields(403, 'key.role_exceeds_own', async (ask, { agentId, key, services }) => {
      const inAnHour = new Date(services.clock.now() + 3_600_000);
      const inTwo = new Date(inAnHour.getTime() + 3_600_000).toISOString();
      const body = { agent_id: Number(agentId), name: 'ci', expires_at: inTwo };
      return ask({ key: await key({ role: 'admin', expiresAt: inAnHour }), body });
    }),
    yields(409, 'service_account.exists', async (ask, { agentId }) => {
      const body = { agent_id: Number(agentId), name: fresh('ci') };
      await ask({ body });
      return ask({ body });
    }),
  ],
};

export const toolCases: Cases = {
  'POST /v1/tools/ingest': [
    succeeds(200, (ask) => ask({ body: { manifest: { name: fresh('tool') } } })),
    ...refusesBodies({}, { manifest: {} }, { manifest: { name: 'x', riskTier: 'dire' } }),
  ],
  'POST /v1/tools/diff': [
    succeeds(200, (ask) =>
      ask({ body: { before: { name: 'a' }, after: { name: 'a', sideEffectProfile: ['delete'] } } }),
    ),
    ...refusesBodies({ before: { name: 'a' } }, { before: {}, after: {} }),
  ],
};

const block = (more: object = {}) => ({
  kind: 'block_tool',
  tool: 'nobodys.tool',
  reason: 'drill',
  ...more,
});

export const killSwitchCases: Cases = {
  'GET /v1/runtime/kill-switches': [
    succeeds(200, (ask) => ask()),
    succeeds(200, (ask) => ask({ query: '?status=all' })),
  ],
  'POST /v1/runtime/kill-switches': [
    succeeds(201, (ask) => ask({ body: block() })),
    succeeds(201, (ask) => ask({ body: block({ wait_ms: 0 }) })),
    ...refusesBodies({ kind: 'block_tool' }, block({ wait_ms: 10_001 })),
    yields(400, 'kill_switch.invalid', (ask) => ask({ body: block({ tool: undefined }) })),
    yields(400, 'args.idempotency_conflict', async (ask) => {
      const idempotency_key = fresh('arm');
      await ask({ body: block({ idempotency_key }) });
      return ask({ body: block({ idempotency_key, reason: 'another' }) });
    }),
    yields(404, 'agent.not_found', (ask) =>
      ask({ body: { kind: 'block_agent', agent_id: String(noAgent), reason: 'drill' } }),
    ),
  ],
  'DELETE /v1/runtime/kill-switches/{id}': [
    succeeds(200, async (ask, { post }) => {
      const { body } = await post('/runtime/kill-switches', block());
      return ask({ params: { id: String(body?.id) } });
    }),
    yields(404, 'kill_switch.not_found', (ask) =>
      ask({ params: { id: 'ks_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d' } }),
    ),
  ],
};
