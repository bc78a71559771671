import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { startTwoOfEach, type TwoOfEach } from '../../support/system/two-of-each.ts';

const times = 200;
let world: TwoOfEach;
beforeAll(async () => {
  // Calls are not held, so a call that needs an approval is refused at once.
  world = await startTwoOfEach({ SALLYPORT_HOLD_MS: '0' });
  const host = `127.0.0.1:${world.upstream.port}`;
  // With this binding, both the sidecars and the control planes (through execute) can perform the
  // call.
  const bound = await world.api('PUT', '/v1/runtime/bindings/pay', {
    protocol: 'http',
    host,
    method: 'POST',
    path: '/pay',
    body: 'json',
    tool: 'bank.pay',
    resource: 'account:main',
    upstream: { url: `http://${host}/pay`, method: 'POST' },
  });
  expect(bound.status).toBe(200);
  await until('the control planes perform calls', async () => {
    return (await ask('execute', 0, amount())).outcome === 'performed pay.small';
  });
}, 120_000);
afterAll(() => world?.close());

let amounts = 0;
/** Returns an amount that no other call has, so that the calls with this amount can be counted. */
const amount = (from = 1) => {
  amounts += 1;
  return from + amounts / 1024;
};

const performed = (paid: number) =>
  world.upstream.seen.filter(({ body }) => JSON.parse(body).amount === paid).length;

const ways = ['sidecar', 'preflight', 'execute'] as const;
type Way = (typeof ways)[number];

interface Asked {
  readonly way: Way;
  /** `performed REASON`, `allowed REASON`, or the reason of a refusal. */
  readonly outcome: string;
  readonly approvalId: number;
  readonly answer: unknown;
}

interface More {
  readonly passport?: string;
  readonly key?: string;
}

/** Makes the same call through a sidecar or at a control plane. */
async function ask(way: Way, at: number, paid: number, { passport, key }: More = {}) {
  if (way === 'sidecar') return throughSidecar(at, paid, passport);
  const { status, body } = await world.api(
    'POST',
    `/v1/actions/${way}`,
    {
      tool: 'bank.pay',
      resource: 'account:main',
      args: { amount: paid },
      mode: 'enforce',
      agent_id: world.agentId,
      user_id: 'user_1',
      passport,
      idempotency_key: key,
    },
    at % 2 === 0 ? 0 : 1,
  );
  // If a switch is armed between the decision and the sending, the response reports the failure, not the
  // decision.
  const reason = String(body.failure ?? body.reason_code);
  const isAllowed = status === 200 && body.decision === 'allow' && body.failure === undefined;
  expect(body.executed ?? false).toBe(isAllowed && way === 'execute');
  const word = way === 'execute' ? 'performed' : 'allowed';
  const outcome = isAllowed ? `${word} ${reason}` : reason;
  const approvalId = Number(body.approval_request_id ?? 0);
  return { way, outcome, approvalId, answer: { status, body } };
}

async function throughSidecar(at: number, paid: number, passport?: string): Promise<Asked> {
  const headers = passport === undefined ? undefined : { 'action-passport': passport };
  const answer = await world.pay(at, paid, headers);
  const [, reason] = /reason=([^;]+)/.exec(answer.headers.get('sallyport-decision') ?? '') ?? [];
  const outcome = answer.status === 200 ? `performed ${reason}` : String(answer.body.reason_code);
  return { way: 'sidecar', outcome, approvalId: 0, answer };
}

/**
 * Sends this many calls at once, alternating between all paths and between both programs of each
 * path.
 */
const overAll = (paid: number, moreOf: (n: number, way: Way) => More = () => ({}), count = times) =>
  Promise.all(
    Array.from({ length: count }, (_, n) => {
      const way = ways[n % ways.length] ?? 'sidecar';
      return ask(way, Math.floor(n / ways.length), paid, moreOf(n, way));
    }),
  );

const letThrough = (asked: readonly Asked[]) =>
  asked.filter(({ outcome }) => outcome.includes(' '));

/** Expects that the upstream received exactly the calls that were reported as performed. */
function expectPerformed(paid: number, asked: readonly Asked[]): void {
  const said = asked.filter(({ outcome }) => outcome.startsWith('performed'));
  expect(performed(paid)).toBe(said.length);
}

async function issue(risk: string, approval_hash: unknown = null) {
  const { body } = await world.api('POST', '/v1/passports/issue', {
    tenant_id: 'default',
    agent_id: world.agentId,
    user_id: 'user_1',
    goal: 'Pay',
    allowed_tools: ['bank.pay'],
    risk_tier: risk,
    policy_id: 'pay',
    approval_hash,
    audience: 'gateway://agents',
    ttl_seconds: 300,
  });
  return { passport: String(body.passport), jti: String(body.jti) };
}

/**
 * Waits for this many sealed decisions on a presented passport; returns how often each reason
 * occurs.
 */
async function sealedReasons(jti: string, count: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  await until(`${count} decisions about ${jti} are sealed`, async () => {
    const decisions = (await world.events('decision')).filter(
      ({ data }) => (data as { passport_jti?: string }).passport_jti === jti,
    );
    for (const reason of Object.keys(counts)) delete counts[reason];
    for (const { reason_code: code } of decisions) {
      counts[String(code)] = (counts[String(code)] ?? 0) + 1;
    }
    return decisions.length >= count;
  });
  return counts;
}

/** Opens and grants an approval of this payment; returns its id and the hash of its decision. */
async function approved(paid: number, grant?: object) {
  const { approvalId } = await ask('preflight', 0, paid);
  const path = `/v1/approvals/${approvalId}/decide`;
  const { status, body } = await world.api('POST', path, { action: 'approve', grant }, 1);
  expect(status).toBe(200);
  return { id: approvalId, hash: body.event_hash };
}

/** Returns the numbers of a grant's uses, as the ledger records them. */
async function usesOf(id: number): Promise<number[]> {
  const events = await world.events('approval.used');
  return events
    .flatMap(({ data }) => {
      const { approval_id, use } = data as { approval_id: number; use: number };
      return approval_id === id ? [use] : [];
    })
    .toSorted((a, b) => a - b);
}

describe('two sidecars, and two control planes with preflight and execute, in concurrent use', () => {
  it.each(['low', 'critical'])(
    `use a passport of %s risk only once, although it is presented ${times} times`,
    async (risk) => {
      const { passport, jti } = await issue(risk);
      const paid = amount();
      const asked = await overAll(paid, () => ({ passport }));
      expect(letThrough(asked)).toHaveLength(1);
      const refused = asked.filter(({ outcome }) => outcome === 'passport.replay_detected');
      expect(refused).toHaveLength(times - 1);
      expectPerformed(paid, asked);
      expect(await sealedReasons(jti, times)).toEqual({
        'pay.small': 1,
        'passport.replay_detected': times - 1,
      });
    },
  );

  it('use a passport once and return one response if all preflights have the same idempotency key', async () => {
    const { passport, jti } = await issue('low');
    const paid = amount();
    const asked = await overAll(paid, (_n, way) => ({ passport, key: `one ${way}` }));
    for (const way of ['preflight', 'execute']) {
      const answers = asked.filter((one) => one.way === way).map(({ answer }) => answer);
      expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
    }
    const sidecars = letThrough(asked.filter(({ way }) => way === 'sidecar')).length;
    const keyed = ['preflight', 'execute'].filter(
      (way) => letThrough(asked.filter((one) => one.way === way)).length > 0,
    ).length;
    expect(sidecars + keyed).toBe(1);
    expect(performed(paid)).toBeLessThanOrEqual(1);
    // The ledger contains one decision for each idempotency key and one for each call of a sidecar. Exactly
    // one of these decisions uses the passport.
    const bySidecars = asked.filter(({ way }) => way === 'sidecar').length;
    expect(await sealedReasons(jti, bySidecars + 2)).toEqual({
      'pay.small': 1,
      'passport.replay_detected': bySidecars + 1,
    });
  });

  it.each([1, 7])(
    'perform exactly as many calls as a standing grant of %i uses permits',
    async (uses) => {
      const paid = amount(2_000);
      const { id } = await approved(paid, { uses });
      const asked = await overAll(paid);
      expect(letThrough(asked).map(({ outcome }) => outcome.split(' ')[1])).toEqual(
        Array(uses).fill('approval.satisfied'),
      );
      expectPerformed(paid, asked);
      expect(await usesOf(id)).toEqual(Array.from({ length: uses }, (_, n) => n + 1));
      const again = await overAll(paid, () => ({}), 6);
      expect(letThrough(again)).toEqual([]);
    },
  );

  it('use a grant of one call once, however many passports are bound to the grant', async () => {
    const paid = amount(2_000);
    const { id, hash } = await approved(paid);
    const passports = await Promise.all(Array.from({ length: 60 }, () => issue('low', hash)));
    const asked = await overAll(
      paid,
      (n) => ({ passport: passports[n % passports.length]?.passport ?? '' }),
      passports.length,
    );
    expect(letThrough(asked)).toHaveLength(1);
    expectPerformed(paid, asked);
    expect(await usesOf(id)).toEqual([1]);
  });

  it('apply a kill switch as soon as its arming is confirmed', async () => {
    const paid = amount();
    const stopped = new AbortController();
    const running = Promise.all(
      Array.from({ length: 6 }, async (_, n) => {
        const way = ways[n % ways.length] ?? 'sidecar';
        while (!stopped.signal.aborted) await ask(way, Math.floor(n / ways.length), paid);
      }),
    );
    await until('calls are performed', async () => performed(paid) >= 6);
    const armed = await world.api(
      'POST',
      '/v1/runtime/kill-switches',
      { kind: 'block_tool', tool: 'bank.*', reason: 'drill', wait_ms: 10_000 },
      1,
    );
    expect([armed.status, armed.body.missing]).toEqual([201, []]);
    const after = amount();
    const asked = await overAll(after, () => ({}), 60);
    expect(new Set(asked.map(({ outcome }) => outcome))).toEqual(new Set(['runtime.kill_switch']));
    expect(performed(after)).toBe(0);
    stopped.abort();
    await running;
  });
});
