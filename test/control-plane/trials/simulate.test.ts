import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { simulateActions } from '../../../shared/contract/policies/simulation.ts';
import { changeTenantSettings } from '../../../shared/contract/tenants.ts';
import { tenantSections } from '../../../shared/sync/sections.ts';
import { manualClock } from '../../support/base/manual-clock.ts';
import { refusalOf, rule } from '../../support/control-plane/gateway.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

let redis: TestRedis;
let bus: Redis;
let stage: Awaited<ReturnType<typeof preflightStage>>;
beforeAll(async () => {
  redis = await startRedis();
  bus = new Redis(redis.url);
  // This clock is ahead of Redis's clock, so that every passport is issued after Redis began to store claims.
  const clock = manualClock(Date.now() + 60_000);
  stage = await preflightStage({ redisUrl: redis.url, clock });
}, 60_000);
afterAll(async () => {
  await stage?.gateway.close();
  bus?.disconnect();
  await redis?.stop();
});

const simulate = (body: object, client = stage.gateway.owner) =>
  client.call(simulateActions, { body: body as never });

const candidate = (id: string, ...rules: object[]) => ({ id, version: 1, rules });
const allAllowed = () => candidate('wide', rule('allow'));

async function one(body: object) {
  const { results } = await simulate(body);
  expect(results).toHaveLength(1);
  return results[0];
}

/**
 * Waits until the sections of both tenants are published; afterwards, the state changes only through
 * requests.
 */
async function everythingPublished(): Promise<void> {
  const { pool } = stage.gateway.services;
  const published = `SELECT count(*)::int AS n FROM sync_section WHERE published_version = version`;
  const count = async () => (await pool.query<{ n: number }>(published)).rows[0]?.n;
  await expect.poll(count, { timeout: 20_000 }).toBe(2 * tenantSections.length);
}

/**
 * Returns the number and a digest of the rows of each table, and the keys on the bus. It omits the request
 * budgets on the bus, because every request changes them.
 */
async function everythingStored(): Promise<Record<string, unknown>> {
  const { pool } = stage.gateway.services;
  const { rows: tables } = await pool.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`,
  );
  const counts: Record<string, unknown> = {};
  for (const { name } of tables) {
    // The time of a key's last use is stored with every request.
    const row = name === 'api_key' ? `(to_jsonb(t) - 'last_used_at')` : 'to_jsonb(t)';
    const { rows } = await pool.query(
      `SELECT count(*) AS n, md5(coalesce(string_agg(${row}::text, '' ORDER BY ${row}::text), '')) AS sum
         FROM "${name}" t`,
    );
    counts[name] = rows[0];
  }
  counts.bus = (await bus.keys('*')).filter((key) => !key.includes('budget:')).sort();
  return counts;
}

describe('simulating', () => {
  it.each(['pay', 'shell', 'refund', 'mail', 'unheard.of'])(
    'returns the same decision as preflight for the tool %s',
    async (tool) => {
      const rehearsed = await one(stage.action({ tool }));
      const real = await stage.ask({ tool });
      expect(rehearsed).toMatchObject({
        decision: real.decision,
        reason_code: real.reason_code,
        summary: real.summary,
        matched_rules: real.matched_rules,
        risk_tier: real.risk_tier,
        mode: real.mode,
        enforced: real.enforced,
        explain: real.explain,
      });
      expect(rehearsed?.policy_hash).toBe(real.policy_hash);
    },
  );

  it('uses mode strict for actions that a strict candidate applies to', async () => {
    const policies = [{ ...allAllowed(), mode: 'strict' }];
    expect(await one({ ...stage.action(), policies })).toMatchObject({
      mode: 'strict',
      enforced: true,
      decision: 'deny',
      reason_code: 'passport.missing',
    });
  });

  it('uses the mode of the tenant unless the body or the action names a mode', async () => {
    const action = stage.action({ tool: 'shell' });
    expect(await one(action)).toMatchObject({ decision: 'deny', mode: 'enforce', enforced: true });
    const setMode = (mode: 'monitor' | 'enforce') =>
      stage.gateway.owner.call(changeTenantSettings, { body: { mode } });
    await setMode('monitor');
    const [rehearsed, real] = [await one(action), await stage.ask({ tool: 'shell' })];
    await setMode('enforce');
    expect(rehearsed).toMatchObject({ decision: 'deny', mode: 'monitor', enforced: false });
    expect(rehearsed).toMatchObject({ mode: real.mode, enforced: real.enforced });
    const modes = await simulate({
      actions: [action, { ...action, mode: 'strict' }],
      mode: 'warn',
    });
    expect(modes.results.map(({ mode, decision }) => [mode, decision])).toEqual([
      ['warn', 'warn'],
      ['strict', 'deny'],
    ]);
  });

  it('returns the results of a batch in order, and counts each kind of decision', async () => {
    const tools = ['refund', 'pay', 'shell', 'pay', 'mail'];
    const { results, counts } = await simulate({
      actions: tools.map((tool) => stage.action({ tool })),
    });
    expect(results.map(({ decision }) => decision)).toEqual([
      'require_approval',
      'allow',
      'deny',
      'allow',
      'warn',
    ]);
    expect(counts).toEqual({
      allow: 2,
      deny: 1,
      warn: 1,
      require_approval: 1,
      require_tool_reapproval: 0,
    });
  });

  it('returns every rule with each of its conditions', async () => {
    const { trace, trace_left_off } = (await one(stage.action())) ?? {};
    expect(trace_left_off).toBe(0);
    expect(trace?.map(({ policy, rule: name, matched }) => [policy, name, matched])).toEqual([
      ['p1', 'allow pay', true],
      ['p1', 'deny shell', false],
      ['p1', 'require_approval refund', false],
      ['p1', 'warn mail', false],
    ]);
    expect(trace?.[1]?.conditions).toEqual([
      { path: 'tool.name', operator: '==', expected: 'shell', actual: 'pay', result: false },
    ]);
  });

  it('evaluates candidates alone, together with the published policies, or instead of one published policy', async () => {
    const shell = stage.action({ tool: 'shell' });
    const policies = [allAllowed()];
    expect(await one({ ...shell, policies })).toMatchObject({ decision: 'allow' });
    expect(await one({ ...shell, policies, beside: true })).toMatchObject({ decision: 'deny' });
    const inPlace = [candidate('p1', rule('allow'))];
    expect(await one({ ...shell, policies: inPlace, beside: true })).toMatchObject({
      decision: 'allow',
      matched_rules: ['p1/allow all'],
    });
  });

  it('omits non-matching rules from a very long trace, and very long values from conditions', async () => {
    const rules = Array.from({ length: 1_200 }, (_, n) => ({
      ...rule(n === 1_199 ? 'allow' : 'deny', n === 1_199 ? 'pay' : `tool.${n}`),
      name: `r${n}`,
    }));
    const policies = ['a', 'b'].map((id) => candidate(id, ...rules.slice(-1_200)));
    const args = { note: 'x'.repeat(5_000) };
    const long = rule('warn', undefined, {
      when: { all: [{ path: 'args.note', operator: 'contains', value: 'x' }] },
    });
    const rehearsed = await one({
      ...stage.action({ args }),
      policies: [...policies, candidate('c', long)],
    });
    expect(rehearsed?.trace).toHaveLength(2_000);
    expect(rehearsed?.trace_left_off).toBe(401);
    expect(rehearsed?.trace.filter(({ matched }) => matched).map(({ policy }) => policy)).toEqual([
      'a',
      'b',
      'c',
    ]);
    expect(rehearsed?.trace.at(-1)?.conditions).toEqual([
      { path: 'args.note', operator: 'contains', expected: 'x', result: true },
    ]);
  });
});

describe('simulating without side effects', () => {
  it('changes no row of any table and no key of the bus', async () => {
    const { passport } = await stage.passportFor();
    await everythingPublished();
    const before = await everythingStored();
    const { results } = await simulate({
      actions: [
        stage.action({ tool: 'refund' }),
        stage.action({ passport }),
        stage.action({ tool: 'shell', mode: 'strict' }),
        stage.action({ agent_id: '999', tool: 'x' }),
      ],
      policies: [candidate('p1', rule('require_approval', 'refund'), rule('allow', 'pay'))],
      beside: true,
      mode: 'enforce',
    });
    expect(results.map(({ effects }) => effects)).toEqual([
      ['open_approval'],
      ['claim_passport'],
      [],
      [],
    ]);
    expect(await everythingStored()).toEqual(before);
  });

  it('does not consume the passport, and reports a passport that was used before', async () => {
    const { passport } = await stage.passportFor();
    const body = { ...stage.action({ passport }), mode: 'enforce' };
    for (let n = 0; n < 3; n++) expect(await one(body)).toMatchObject({ decision: 'allow' });
    expect(await stage.ask({ passport })).toMatchObject({ decision: 'allow' });
    expect(await one(body)).toMatchObject({
      decision: 'deny',
      reason_code: 'passport.replay_detected',
    });
  });

  it('neither stores nor uses an idempotency key', async () => {
    const key = { idempotency_key: 'rehearsal-1' };
    await one({ ...stage.action(), ...key });
    const real = await stage.ask({ tool: 'shell', ...key });
    expect(real.decision).toBe('deny');
    expect(await one({ ...stage.action(), ...key })).toMatchObject({ decision: 'allow' });
  });
});

describe('a simulation request', () => {
  it.each([
    ['no action', {}, 'args.schema_invalid', 'tool'],
    ['an empty list of actions', { actions: [] }, 'args.schema_invalid', 'actions'],
    ['101 actions', { actions: Array(101).fill({}) }, 'args.schema_invalid', 'actions'],
    ['an unknown field', { tool: 'x', policy: {} }, 'args.schema_invalid', 'policy'],
    [
      'an invalid policy',
      { policies: [candidate('ok'), candidate('bad', { name: 'x' })] },
      'policy.invalid',
      'policies[1]: rules[0].decision',
    ],
    [
      'two policies with the same id',
      { policies: [candidate('same'), candidate('same')] },
      'policy.invalid',
      'same',
    ],
  ])('is refused if it has %s', async (_what, more, code, named) => {
    const body = 'policies' in more ? { ...stage.action(), ...more } : more;
    const error = await refusalOf(simulate(body));
    expect(error.code).toBe(code);
    expect(error.message).toContain(named);
  });

  it('is refused if it has both an action and a list of actions', async () => {
    const error = await refusalOf(simulate({ ...stage.action(), actions: [stage.action()] }));
    expect(error).toMatchObject({ code: 'args.schema_invalid' });
  });

  it('is refused if it comes from an agent, because an agent could probe the policies without a record', async () => {
    const agent = await stage.gateway.as({ role: 'agent' });
    const error = await refusalOf(simulate(stage.action(), agent));
    expect(error.code).toBe('auth.insufficient_permission');
  });

  it('is refused if it names an agent other than the agent that the key is bound to', async () => {
    const bound = await stage.gateway.as({ role: 'developer', agentId: 12_345 });
    const error = await refusalOf(simulate({ actions: [stage.action()] }, bound));
    expect(error.code).toBe('agent.mismatch');
    expect(error.message).toContain('actions[0]');
  });
});

describe('simulating with a key of another tenant', () => {
  it('uses that tenant’s policies, agents and tools', async () => {
    const stranger = await stage.gateway.as({ tenantId: 'other' });
    const { results } = await simulate(stage.action(), stranger);
    expect(results[0]).toMatchObject({
      decision: 'deny',
      reason_code: 'policy.no_match',
      trace: [],
    });
    const real = await stranger.call(preflight, { body: stage.action() });
    expect(real.reason_code).toBe('policy.no_match');
  });
});
