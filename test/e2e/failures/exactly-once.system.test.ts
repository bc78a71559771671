import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tenantKeys } from '../../../shared/bus/tenant-keys.ts';
import { until } from '../../support/programs/processes.ts';
import { startTwoOfEach, type TwoOfEach } from '../../support/system/two-of-each.ts';
import { freeze, leaseOnTheBus } from './exactly-once-stage.ts';

const times = 200;
let world: TwoOfEach;
beforeAll(async () => {
  world = await startTwoOfEach({
    SALLYPORT_HOLD_MS: '6000',
    SALLYPORT_DENIALS_PER_SECOND: '1000000',
    SALLYPORT_DENIALS_BURST: '1000000',
  });
}, 120_000);
afterAll(() => world?.close());

/** The reasons of refused calls: the grant was used, another call waits for it, or the hold timed out. */
const refusedFor = ['pay.large', 'approval.used', 'approval.pending', 'approval.unavailable'];

type Answer = Awaited<ReturnType<TwoOfEach['pay']>>;

let amounts = 0;
/** Returns an amount that no other call has, so that the calls with this amount can be counted. */
const amount = (from = 1) => {
  amounts += 1;
  return from + amounts / 1024;
};

const performed = (paid: number) =>
  world.upstream.seen.filter(({ body }) => JSON.parse(body).amount === paid).length;

/** Sends the same call `count` times concurrently, alternating between the two sidecars. */
const atOnce = (paid: number, headers?: Record<string, string>, count = times) =>
  Promise.all(Array.from({ length: count }, (_, by) => world.pay(by, paid, headers)));

const reasonOf = ({ status, body, headers }: Answer) =>
  status === 200
    ? `performed ${/reason=([^;]+)/.exec(headers.get('sallyport-decision') ?? '')?.[1]}`
    : String(body.reason_code);

function tally(answers: readonly Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const answer of answers) {
    const reason = reasonOf(answer);
    counts[reason] = (counts[reason] ?? 0) + 1;
  }
  return counts;
}

/** Waits for this many sealed decisions about a passport; returns how often each reason occurs. */
async function ledgerOf(jti: string, count: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  await until(`${count} decisions about ${jti} are sealed`, async () => {
    const events = await world.events('decision');
    const about = events.filter(
      ({ data }) => (data as { passport_jti?: string }).passport_jti === jti,
    );
    for (const reason of Object.keys(counts)) delete counts[reason];
    for (const { reason_code } of about) {
      counts[String(reason_code)] = (counts[String(reason_code)] ?? 0) + 1;
    }
    return about.length >= count;
  });
  return counts;
}

/** An approval that is pending, as the API returns it. */
interface Pending {
  readonly id: number;
  readonly proposed_args: { readonly amount?: number };
}

async function pendingWhere(isMeant: (one: Pending) => boolean, count = 1) {
  let ids: number[] = [];
  await until('calls wait for a human', async () => {
    const { body } = await world.api('GET', '/v1/approvals?status=pending');
    ids = (body.approvals as Pending[]).filter(isMeant).map(({ id }) => id);
    return ids.length >= count;
  });
  return ids;
}

/**
 * Returns only the pending approvals for this amount, because calls from earlier tests may still
 * arrive.
 */
const pendingFor = (paid: number) =>
  pendingWhere(({ proposed_args }) => proposed_args.amount === paid);

/** Sends a call that is held, and gives its approval this grant; returns the approval's id. */
async function grantedCall(by: number, paid: number, grant: Record<string, unknown>) {
  const call = world.pay(by, paid);
  const [id = 0] = await pendingFor(paid);
  const { status } = await decide(id, { action: 'approve', grant });
  expect(status).toBe(200);
  expect(reasonOf(await call)).toBe('performed approval.satisfied');
  return id;
}

const decide = (id: number, act: Record<string, unknown>) =>
  world.api('POST', `/v1/approvals/${id}/decide`, act, 1);

/** Returns the state of an approval according to a sidecar. */
async function standingAt(by: 0 | 1, id: number): Promise<unknown> {
  const answer = await world.sidecars[by].agent.get(`http://sallyport.internal/approvals/${id}`);
  return answer.body?.status;
}

async function untilBoth(what: string, holds: (by: 0 | 1) => Promise<boolean>): Promise<void> {
  for (const by of [0, 1] as const) await until(`the sidecars ${what}`, () => holds(by));
}

/** Returns the numbers of a grant's uses, as the ledger records them. */
async function usesOf(id: number): Promise<number[]> {
  const events = await world.events('approval.used');
  return events.flatMap(({ data }) => {
    const { approval_id, use } = data as { approval_id: number; use: number };
    return approval_id === id ? [use] : [];
  });
}

async function issue(risk = 'low', at: 0 | 1 = 0): Promise<{ passport: string; jti: string }> {
  const { body } = await world.api(
    'POST',
    '/v1/passports/issue',
    {
      tenant_id: 'default',
      agent_id: world.agentId,
      user_id: 'user_1',
      goal: 'Pay',
      allowed_tools: ['bank.pay'],
      risk_tier: risk,
      policy_id: 'pay',
      approval_hash: null,
      audience: 'gateway://agents',
      ttl_seconds: 300,
    },
    at,
  );
  const passport = String(body.passport);
  const [, claims = ''] = passport.split('.');
  return { passport, jti: JSON.parse(Buffer.from(claims, 'base64url').toString()).jti };
}

describe('a passport under concurrent requests', () => {
  it('is either renewed once or used once', async () => {
    const { passport } = await issue();
    const agent_id = Number(world.agentId);
    const renew = (at: 0 | 1) => world.api('POST', '/v1/agents/renew', { agent_id, passport }, at);
    const paid = amount();
    const [renewals, uses] = await Promise.all([
      Promise.all(Array.from({ length: 40 }, (_, n) => renew(n % 2 === 0 ? 0 : 1))),
      atOnce(paid, { 'action-passport': passport }, 40),
    ]);
    const renewed = renewals.filter(({ status }) => status === 201);
    const performing = uses.filter(({ status }) => status === 200);
    expect(renewed.length + performing.length).toBe(1);
    expect(performed(paid)).toBe(performing.length);
    const again = await world.pay(1, amount(), { 'action-passport': passport });
    expect(reasonOf(again)).toBe('passport.replay_detected');
  }, 60_000);
});

describe('two sidecars and two control planes in concurrent use', () => {
  it.each(['low', 'critical'])('accept a presented passport of %s risk only once', async (risk) => {
    const { passport, jti } = await issue(risk);
    const paid = amount();
    const answers = await atOnce(paid, { 'action-passport': passport });
    expect(tally(answers)).toEqual({
      'performed pay.small': 1,
      'passport.replay_detected': times - 1,
    });
    expect(performed(paid)).toBe(1);
    expect(await ledgerOf(jti, times)).toEqual({
      'pay.small': 1,
      'passport.replay_detected': times - 1,
    });
  });

  it('accept a passport only once, even if its claim was deleted from the bus', async () => {
    const { passport, jti } = await issue();
    const paid = amount();
    const use = async () => reasonOf(await world.pay(0, paid, { 'action-passport': passport }));
    expect(await use()).toBe('performed pay.small');
    const attacker = new Redis(world.redis.url);
    expect(await attacker.del(tenantKeys('default').claim(`jti:${jti}`))).toBe(1);
    attacker.disconnect();
    expect(await use()).toBe('passport.replay_detected');
    expect(performed(paid)).toBe(1);
  });

  it('give every call its own number within the lease, and refuse the lease itself as a passport', async () => {
    const paid = amount();
    expect(tally(await atOnce(paid))).toEqual({ 'performed pay.small': times });
    expect(performed(paid)).toBe(times);
    const jtis: string[] = [];
    await until('all decisions are sealed', async () => {
      const events = await world.events('decision');
      jtis.splice(0);
      for (const { data, reason_code } of events) {
        const { passport_jti: jti } = data as { passport_jti?: string };
        if (reason_code === 'pay.small' && jti?.includes('.')) jtis.push(jti);
      }
      return jtis.length >= times;
    });
    expect(new Set(jtis).size).toBe(jtis.length);

    const stolen = await leaseOnTheBus(world.redis.url);
    const refused = amount();
    expect(tally(await atOnce(refused, { 'action-passport': stolen }, 20))).toEqual({
      'passport.malformed': 20,
    });
    expect(performed(refused)).toBe(0);
  });

  it('use a grant only once, even if both sidecars hold the call', async () => {
    const paid = amount(2_000);
    const calls = atOnce(paid);
    const [id = 0] = await pendingFor(paid);
    await world.api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' }, 1);
    const { 'performed approval.satisfied': done, ...refused } = tally(await calls);
    expect(done).toBe(1);
    expect(performed(paid)).toBe(1);
    for (const reason of Object.keys(refused)) {
      expect(refusedFor).toContain(reason);
    }
    const used = (await world.events('approval.used')).filter(
      ({ data }) => (data as { approval_id?: number }).approval_id === id,
    );
    expect(used).toHaveLength(1);
  });

  it('spend a standing grant for N calls on exactly N calls in total', async () => {
    const uses = 20;
    const paid = amount(2_000);
    const id = await grantedCall(0, paid, { uses });

    const calls = atOnce(paid);
    // Calls that arrived too late open new approvals. They are denied, so that the test need not wait for
    // them.
    for (const late of await pendingWhere((one) => one.id > id))
      await decide(late, { action: 'deny' });
    const answers = [...(await calls)];
    let used = await usesOf(id);
    // On a slow machine, some calls time out before they use the grant. More calls consume the uses that
    // remain.
    for (let more = 0; used.length < uses && more < uses; more++) {
      answers.push(await world.pay(more, paid));
      used = await usesOf(id);
    }
    const { 'performed approval.satisfied': done = 0, ...refused } = tally(answers);
    const { 'approval.unavailable': lost = 0 } = refused;
    expect(performed(paid)).toBe(done + 1);
    expect(done + 1).toBeLessThanOrEqual(uses);
    expect(done + 1 + lost).toBeGreaterThanOrEqual(uses);
    expect(Object.keys(refused)).not.toContain('performed pay.large');
    expect(used.toSorted((a, b) => a - b)).toEqual(Array.from({ length: uses }, (_, n) => n + 1));
  });

  it('use a standing grant of scope tool at both sidecars with any arguments, until the grant is revoked', async () => {
    const id = await grantedCall(1, amount(2_000), { uses: 1_000, scope: 'tool' });
    await until(
      'the other sidecar holds it too',
      async () => (await standingAt(0, id)) === 'approved',
    );
    const paid = Array.from({ length: 20 }, () => amount(2_000));
    const answers = await Promise.all(paid.map((one, by) => world.pay(by, one)));
    expect(tally(answers)).toEqual({ 'performed approval.satisfied': paid.length });

    const { body } = await world.api('DELETE', `/v1/approvals/${id}/grant`, undefined, 1);
    expect(body).toMatchObject({ revoked: true, uses_spent: 1 + paid.length });
    // The calls are refused at once, even if a sidecar has not received the revocation yet.
    const late = [amount(2_000), amount(2_000)];
    const refused = Promise.all(late.map((one, by) => world.pay(by, one)));
    for (const waiting of await pendingWhere((one) => one.id > id, 2))
      await decide(waiting, { action: 'deny' });
    for (const { status } of await refused) expect(status).not.toBe(200);
    expect(late.map(performed)).toEqual([0, 0]);
    await untilBoth('know', async (by) => (await standingAt(by, id)) !== 'approved');
    expect(await usesOf(id)).toHaveLength(1 + paid.length);
  });

  it('apply a denial at both sidecars, even if a standing grant of scope tool covers the arguments', async () => {
    const no = amount(2_000);
    const asked = world.pay(0, no);
    for (const id of await pendingFor(no)) await decide(id, { action: 'deny' });
    expect(reasonOf(await asked)).toBe('approval.denied');
    const wide = await grantedCall(0, amount(2_000), { uses: 1_000, scope: 'tool' });
    await untilBoth('hold the grant', async (by) => (await standingAt(by, wide)) === 'approved');
    expect(tally(await atOnce(no, {}, 20))).toEqual({ 'approval.denied': 20 });
    expect(tally(await atOnce(amount(2_000), {}, 2))).toEqual({
      'performed approval.satisfied': 2,
    });
    expect(performed(no)).toBe(0);
    await world.api('DELETE', `/v1/approvals/${wide}/grant`, undefined, 0);
    await untilBoth('know', async (by) => (await standingAt(by, wide)) !== 'approved');
  });

  it('make one decision for concurrent preflights with one idempotency key, and return the same response to all', async () => {
    const { passport, jti } = await issue();
    const body = {
      tool: 'bank.pay',
      resource: 'account:main',
      args: { amount: 1 },
      mode: 'enforce',
      agent_id: world.agentId,
      user_id: 'user_1',
      passport,
      idempotency_key: 'once',
    };
    const answers = await Promise.all(
      Array.from({ length: times }, (_, by) =>
        world.api('POST', '/v1/actions/preflight', body, by % 2 === 0 ? 0 : 1),
      ),
    );
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 200, body: { decision: 'allow' } });
    expect(await ledgerOf(jti, 1)).toEqual({ 'pay.small': 1 });
  });

  it('apply a revocation that races with uses, and use no passport more than once', async () => {
    const passports = await Promise.all(
      Array.from({ length: 25 }, (_, n) => issue('low', n % 2 === 0 ? 0 : 1)),
    );
    const paid = passports.map(() => amount());
    const use = () =>
      Promise.all(
        passports.flatMap(({ passport }, n) =>
          [0, 1].map((by) => world.pay(by, paid[n] ?? 0, { 'action-passport': passport })),
        ),
      );
    const racing = use();
    await Promise.all(
      passports.map(({ jti }, n) =>
        world.api('POST', '/v1/passports/revoke', { jti, reason: 'test' }, n % 2 === 0 ? 0 : 1),
      ),
    );
    await racing;
    const performedThen = paid.map(performed);
    expect(Math.max(...performedThen)).toBeLessThanOrEqual(1);
    await until('both sidecars know', async () => {
      const reasons = (await use()).map(reasonOf);
      return reasons.every((reason) => reason === 'passport.revoked');
    });
    // An unused passport may still be used once before the revocation arrives.
    const counts = paid.map(performed);
    expect(Math.max(...counts)).toBeLessThanOrEqual(1);
    await use();
    expect(paid.map(performed)).toEqual(counts);
  });

  it('follow rotations of the sync key, even those during which one sidecar was stopped', async () => {
    const [running, away] = world.sidecars;
    await away.program.stop();
    const rotate = () => world.api('POST', '/v1/keys/signing/rotate', { purpose: 'sync' }, 1);
    expect((await rotate()).status).toBe(200);
    expect((await rotate()).status).toBe(200);
    await away.start();
    for (const by of [0, 1]) {
      await until(
        'calls are performed',
        async () => (await world.pay(by, amount())).status === 200,
      );
    }
    await world.api('POST', '/v1/policies', { name: 'freeze', publish: true, rules_json: freeze });
    for (const by of [0, 1]) {
      await until('what is published since arrives', async () => {
        return reasonOf(await world.pay(by, amount())) === 'pay.frozen';
      });
    }
    expect(running.program.output()).not.toContain('could not be followed');
  });
});

describe('a disabled agent', () => {
  it('is denied on both sidecars, whichever control plane disabled it, and allowed after it is enabled', async () => {
    for (const at of [0, 1] as const) {
      await until('calls are decided by policy', async () => {
        const reasons = [0, 1].map(async (by) => reasonOf(await world.pay(by, amount())));
        return (await Promise.all(reasons)).every((reason) => reason === 'pay.frozen');
      });
      const path = `/v1/agents/${world.agentId}`;
      expect((await world.api('PATCH', path, { disabled: true }, at)).status).toBe(200);
      const asked = { tool: 'bank.pay', resource: 'x', agent_id: world.agentId, user_id: 'user_1' };
      for (const of of [0, 1] as const) {
        const { body } = await world.api('POST', '/v1/actions/preflight', asked, of);
        expect(body).toMatchObject({ decision: 'deny', reason_code: 'agent.disabled' });
      }
      await until('both sidecars know', async () => {
        const answers = await Promise.all([0, 1].map((by) => world.pay(by, amount())));
        return answers.every((answer) => reasonOf(answer) === 'agent.disabled');
      });
      expect((await world.api('PATCH', path, { disabled: false }, at)).status).toBe(200);
    }
  }, 60_000);
});
