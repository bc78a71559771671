import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import {
  startTwoControlPlanes,
  type TwoControlPlanes,
} from '../../support/system/two-control-planes.ts';

const times = 200;
let world: TwoControlPlanes;
let agentIds: readonly string[];
beforeAll(async () => {
  world = await startTwoControlPlanes();
  const register = async (name: string) => {
    const { body } = await world.call(0, 'POST', '/v1/agents/register', {
      name,
      capabilities: ['*.**'],
    });
    return String(body.agent_id);
  };
  agentIds = [await register('one'), await register('two')];
  const when = { all: [{ path: 'args.amount', operator: '<=', value: 100 }] };
  const rule = { name: 'small', decision: 'allow', reason: 'pay.small', when };
  const rules_json = { id: 'pay', version: 1, rules: [rule] };
  await world.call(0, 'POST', '/v1/policies', { name: 'pay', publish: true, rules_json });
}, 120_000);
afterAll(() => world?.close());

const action = (key: string, more: object = {}) => ({
  tool: 'bank.pay',
  resource: 'account:1',
  args: { amount: 1 },
  agent_id: agentIds[0],
  user_id: 'user_1',
  idempotency_key: key,
  ...more,
});
const preflight = (at: number, body: object, key?: 'owner' | 'other') =>
  world.call(at, 'POST', '/v1/actions/preflight', body, key);

async function issue(): Promise<{ readonly passport: string; readonly jti: string }> {
  const { body } = await world.call(0, 'POST', '/v1/passports/issue', {
    tenant_id: 'default',
    agent_id: agentIds[0],
    user_id: 'user_1',
    goal: 'Pay',
    allowed_tools: ['bank.pay'],
    risk_tier: 'critical',
    policy_id: 'pay',
    audience: 'gateway://agents',
    ttl_seconds: 300,
  });
  const passport = String(body.passport);
  const [, claims = ''] = passport.split('.');
  return { passport, jti: JSON.parse(Buffer.from(claims, 'base64url').toString()).jti };
}

/** Returns the sealed decisions for which a passport was presented. */
async function decisionsOn(jti: string): Promise<readonly { id: string; reason_code: string }[]> {
  const { rows } = await world.pool.query<{ canonical: string }>(
    "select canonical from evidence_row where type = 'decision'",
  );
  const events = rows.map(({ canonical }) => JSON.parse(canonical));
  return events.filter(({ data }) => data.passport_jti === jti);
}

/**
 * Sets the start of the first request with this key back by a minute, longer than a decision can
 * take.
 */
const age = (key: string) =>
  world.pool.query(
    "update idempotency set created_at = created_at - interval '1 minute' where key = $1",
    [key],
  );

/** Resolves when the response to the first request is stored but the request is not marked as complete. */
const begun = (key: string) =>
  until('the first request has decided', async () => {
    const { rows } = await world.pool.query(
      'select 1 from idempotency where key = $1 and status is null and body is not null',
      [key],
    );
    return rows.length === 1;
  });

/** Locks the rows that a query returns. The returned function releases them. */
async function hold(query: string, ...values: string[]): Promise<() => Promise<void>> {
  const client = await world.pool.connect();
  await client.query('begin');
  await client.query(`${query} for update`, values);
  return async () => {
    await client.query('rollback');
    client.release();
  };
}
const holdLedger = () => hold("select 1 from evidence_head where tenant_id = 'default'");

describe('one idempotency key on two control planes', () => {
  it(`in ${times} concurrent requests results in one decision, one event and one use of the passport`, async () => {
    const { passport, jti } = await issue();
    const answers = await Promise.all(
      Array.from({ length: times }, (_, at) => preflight(at % 2, action('many', { passport }))),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 200, body: { decision: 'allow' } });
    const decisions = await decisionsOn(jti);
    expect(decisions.map(({ id }) => id)).toEqual([answers[0]?.body.evidence_event_id]);
    const { rows } = await world.pool.query('select 1 from passport_use where jti = $1', [jti]);
    expect(rows).toHaveLength(1);
    expect((await preflight(1, action('another', { passport }))).body.reason_code).toBe(
      'passport.replay_detected',
    );
  });

  it('is independent for each agent and each API key, and is refused if the payload differs', async () => {
    const [first, again, agent, apiKey] = [
      await preflight(0, action('mine')),
      await preflight(1, action('mine')),
      await preflight(1, action('mine', { agent_id: agentIds[1] })),
      await preflight(1, action('mine'), 'other'),
    ];
    expect(again.text).toBe(first.text);
    expect([agent.status, apiKey.status]).toEqual([200, 200]);
    const ids = [first, agent, apiKey].map(({ body }) => body.evidence_event_id);
    expect(new Set(ids).size).toBe(3);
    for (const more of [{ args: { amount: 2 } }, { mode: 'monitor' }, { goal: 'x' }]) {
      expect(await preflight(1, action('mine', more))).toMatchObject({
        status: 400,
        body: { reason_code: 'args.idempotency_conflict' },
      });
    }
  });

  it('can be used for a new request after 24 hours', async () => {
    const first = await preflight(0, action('daily'));
    const { rows } = await world.pool.query<{ hours: number }>(
      "select extract(epoch from expires_at - created_at)::float8 / 3600 as hours from idempotency where key = 'daily'",
    );
    expect(rows[0]?.hours).toBeCloseTo(24, 2);
    expect((await preflight(1, action('daily'))).text).toBe(first.text);
    await world.pool.query("update idempotency set expires_at = now() where key = 'daily'");
    const later = await preflight(1, action('daily', { args: { amount: 3 } }));
    expect(later.status).toBe(200);
    expect(later.body.evidence_event_id).not.toBe(first.body.evidence_event_id);
  });
});

describe('a control plane that is killed', () => {
  it('during or after sealing leaves each decision sealed once; a repeated request returns that decision', async () => {
    const passports = { sealed: await issue(), unsealed: await issue(), refused: await issue() };
    const asked = {
      sealed: action('sealed', { passport: passports.sealed.passport }),
      unsealed: action('unsealed', { passport: passports.unsealed.passport }),
      // The passport was issued to another agent.
      refused: action('refused', {
        passport: passports.refused.passport,
        agent_id: agentIds[1],
      }),
    };
    const lose = async (key: keyof typeof asked) => {
      const lost = preflight(0, asked[key]).then(
        () => 'answered',
        () => 'cut off',
      );
      await begun(key);
      return { lost };
    };
    const letLedgerGo = await holdLedger();
    const first = await lose('sealed');
    const letKeyGo = await hold('select 1 from idempotency where key = $1', 'sealed');
    await letLedgerGo();
    await until('the first decision is sealed', async () => {
      return (await decisionsOn(passports.sealed.jti)).length === 1;
    });
    const letLedgerGoAgain = await holdLedger();
    const others = [await lose('unsealed'), await lose('refused')];
    await world.programs[0]?.kill();
    for (const { lost } of [first, ...others]) expect(await lost).toBe('cut off');
    await letKeyGo();
    await letLedgerGoAgain();

    const given = new Map<string, string>();
    for (const key of ['sealed', 'unsealed', 'refused'] as const) {
      await age(key);
      const answers = await Promise.all(Array.from({ length: 20 }, () => preflight(1, asked[key])));
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      const [answer] = answers;
      expect([key, answer?.status, answer?.body.reason_code]).toEqual(
        key === 'refused' ? [key, 403, 'passport.agent_mismatch'] : [key, 200, 'pay.small'],
      );
      const decisions = await decisionsOn(passports[key].jti);
      expect(decisions.map(({ id }) => id)).toEqual([answer?.body.evidence_event_id]);
      given.set(key, answer?.text ?? '');
    }
    await world.start(0);
    for (const [key, text] of given) {
      expect((await preflight(0, asked[key as keyof typeof asked])).text).toBe(text);
    }
    expect(await decisionsOn(passports.unsealed.jti)).toHaveLength(1);
    expect((await world.call(0, 'GET', '/v1/evidence/verify')).body.ok).toBe(true);
  });
});
