import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { preflight as preflightAction } from '../../../control-plane/actions/preflight.ts';
import { OwnUsage } from '../../../control-plane/core/own-usage.ts';
import { sweepUsage } from '../../../control-plane/usage/read-usage.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { preflight } from '../../../shared/contract/actions.ts';
import { hourMs, minuteMs, minuteOf } from '../../../shared/usage/buckets.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
  spoolStart,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { startGateway } from '../../support/control-plane/gateway.ts';

const gateway = await startGateway();
afterAll(() => gateway.close());
const { services, owner } = gateway;
const { clock, pool } = services;

const budget = (tool: string, path: string, operator: string, value: number) => ({
  name: `budget of ${tool}`,
  decision: 'allow',
  reason: 'within.budget',
  when: {
    all: [
      { path: 'tool.name', operator: '==', value: tool },
      { path, operator, value },
    ],
  },
});
await gateway.publish(
  budget('pay', 'usage.calls_1h', '<', 5),
  budget('refund', 'usage.sum_24h.amount', '<=', 100),
);

let agents = 0;
let agentId: string;
let sidecar: EnrolledSidecar;
beforeEach(async () => {
  agents += 1;
  agentId = await gateway.agent(`bot ${agents}`);
  sidecar = await enrolledSidecar(gateway, agentId);
});

const ask = (more: JsonObject = {}) =>
  owner.call(preflight, {
    body: { tool: 'pay', resource: 'r:1', args: {}, agent_id: agentId, user_id: 'u', ...more },
  });

const counted = (usage: JsonObject, usage_run = 'run_1', more: JsonObject = {}) =>
  sidecar.record({ tool: 'pay', ...more, data: { usage, usage_run } });

async function upload(records: ReturnType<typeof counted>[], after = spoolStart) {
  const { jws } = sidecar.segment(records, after);
  return sidecar.upload(jws, records);
}

describe('a usage budget at the control plane', () => {
  it('is exact for concurrent calls, and the denial states when the budget resets', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask()));
    const allowed = answers.filter(({ decision }) => decision === 'allow');
    expect(allowed).toHaveLength(5);
    const refused = answers.find(({ decision }) => decision === 'deny');
    const resetsAt = new Date((minuteOf(clock.now()) + 1) * minuteMs + hourMs).toISOString();
    expect(refused?.explain.details).toEqual({ resets_at: resetsAt });
    expect(refused?.explain.next_steps.join()).toContain(resetsAt);
  });

  it('adds up the allowed calls, and the ledger records the amount that each call adds', async () => {
    const answers = [];
    for (const amount of [60, '41', 40, -500, 1]) {
      answers.push(await ask({ tool: 'refund', args: { amount } }));
    }
    expect(answers.map(({ decision }) => decision)).toEqual([
      'allow',
      'deny',
      'allow',
      'allow',
      'deny',
    ]);
    const added = await Promise.all(
      answers.map(async ({ evidence_event_id: eventId }) => {
        const where = { tenantId_eventId: { tenantId: 'default', eventId } };
        const { canonical } = await services.db.evidenceRow.findUniqueOrThrow({ where });
        return JSON.parse(canonical).data.usage;
      }),
    );
    expect(added).toEqual([{ amount: 60 }, undefined, { amount: 40 }, {}, undefined]);
  });

  it('counts repeats with one idempotency key only once', async () => {
    const again = { idempotency_key: `key ${agentId}` };
    await Promise.all([1, 2, 3, 4].map(() => ask(again)));
    const more = await Promise.all([1, 2, 3, 4, 5].map(() => ask()));
    expect(more.filter(({ decision }) => decision === 'allow')).toHaveLength(4);
  });

  it('is shared with another control plane on the same database', async () => {
    await Promise.all([1, 2, 3].map(() => ask()));
    const other = { ...services, usage: new OwnUsage(clock) };
    const caller = { tenantId: 'default', principal: 'owner' } as Parameters<
      typeof preflightAction
    >[1];
    const there = () =>
      preflightAction(other, caller, {
        tool: 'pay',
        resource: 'r:1',
        agent_id: agentId,
        user_id: 'u',
      });
    const decisions = [];
    for (let n = 0; n < 4; n += 1) decisions.push((await there()).decision);
    expect(decisions).toEqual(['allow', 'allow', 'deny', 'deny']);
    expect((await ask()).decision).toBe('deny');
  });

  it('counts the calls of the agent’s own sidecars, but no calls of another agent', async () => {
    await upload([counted({}), counted({}), counted({}, 'run_2'), counted({})]);
    expect((await ask()).decision).toBe('allow');
    expect((await ask()).decision).toBe('deny');
    const other = await gateway.agent(`other ${agentId}`);
    expect((await ask({ agent_id: other })).decision).toBe('allow');
  });

  it('does not count a decision that could not be sealed at once, even after it is sealed', async () => {
    await pool.query(
      `create function refuse_pay() returns trigger language plpgsql as $$
       begin if new.tool = 'pay' then raise 'the disk is full'; end if; return new; end $$`,
    );
    await pool.query(
      'create trigger refuse_pay before insert on evidence_row for each row execute function refuse_pay()',
    );
    await expect(ask()).rejects.toMatchObject({ code: 'evidence.seal_failed' });
    await pool.query('drop trigger refuse_pay on evidence_row');
    await expect
      .poll(() => services.db.evidenceRow.count({ where: { agentId, tool: 'pay' } }), {
        timeout: 20_000,
      })
      .toBe(1);
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map(() => ask()));
    expect(answers.filter(({ decision }) => decision === 'allow')).toHaveLength(5);
  }, 30_000);
});

describe('a call whose sealing failed and whose response is stored under its idempotency key', () => {
  const ledgerAway = async <T>(work: () => Promise<T>): Promise<T> => {
    await pool.query('alter table evidence_head rename to evidence_head_away');
    try {
      return await work();
    } finally {
      await pool.query('alter table evidence_head_away rename to evidence_head');
    }
  };
  const elsewhere = () =>
    preflightAction(
      { ...services, usage: new OwnUsage(clock) },
      { tenantId: 'default', principal: 'owner' } as Parameters<typeof preflightAction>[1],
      { tool: 'pay', resource: 'r:1', agent_id: agentId, user_id: 'u' },
    );
  const sealedPays = () => services.db.evidenceRow.count({ where: { agentId, tool: 'pay' } });

  it('is counted once, at every control plane, when a repeat gets the stored response', async () => {
    const again = { idempotency_key: `kept ${agentId}` };
    await ledgerAway(() =>
      expect(ask(again)).rejects.toMatchObject({ code: 'evidence.seal_failed' }),
    );
    const repeats = await Promise.all([ask(again), ask(again), ask(again)]);
    expect(repeats.map(({ decision }) => decision)).toEqual(['allow', 'allow', 'allow']);
    const here = await Promise.all([1, 2, 3].map(() => ask()));
    expect(here.map(({ decision }) => decision)).toEqual(['allow', 'allow', 'allow']);
    expect((await elsewhere()).decision).toBe('allow');
    expect((await elsewhere()).decision).toBe('deny');
    expect((await ask()).decision).toBe('deny');
  }, 30_000);

  it('is counted once if the event of the call is sealed before the repeat', async () => {
    const again = { idempotency_key: `late ${agentId}` };
    await ledgerAway(() =>
      expect(ask(again)).rejects.toMatchObject({ code: 'evidence.seal_failed' }),
    );
    await expect.poll(sealedPays, { timeout: 20_000 }).toBe(1);
    expect((await ask(again)).decision).toBe('allow');
    expect(await sealedPays()).toBe(1);
    for (const _ of [1, 2, 3, 4]) expect((await elsewhere()).decision).toBe('allow');
    expect((await elsewhere()).decision).toBe('deny');
  }, 30_000);
});

describe('the usage that a sidecar fetches', () => {
  const usage = (run = 'run_now', after = 0) => sidecar.controlPlane.usage(run, after);
  const minute = () => minuteOf(clock.now());

  it('excludes the records of the sidecar’s own run', async () => {
    await upload([
      counted({ amount: 5 }),
      counted({ amount: 2.5 }),
      counted({ fee: 1 }, 'run_now'),
    ]);
    await ask();
    const { buckets } = await usage();
    expect(buckets).toEqual([{ tool: 'pay', minute: minute(), calls: 3, sums: { amount: 7.5 } }]);
    expect((await usage('run_1')).buckets).toEqual([
      { tool: 'pay', minute: minute(), calls: 2, sums: { fee: 1 } },
    ]);
  });

  it('contains every bucket that changed after the previous position, with its complete count', async () => {
    const first = [counted({}, 'run_1', { tool: 'mail' })];
    const acked = await upload(first);
    const { position, buckets } = await usage();
    expect(buckets).toHaveLength(1);
    expect(await usage('run_now', position)).toEqual({ position, after: position, buckets: [] });
    await upload([counted({}), counted({})], acked);
    const next = await usage('run_now', position);
    expect(next).toMatchObject({ after: position, buckets: [{ tool: 'pay', calls: 2 }] });
    expect(next.position).toBeGreaterThan(position);
  });

  it('is sent in full if the requested position is beyond the end of the ledger', async () => {
    await upload([counted({})]);
    const { position } = await usage();
    expect(await usage('run_now', position + 1_000)).toMatchObject({
      position,
      after: 0,
      buckets: [{ tool: 'pay', calls: 1 }],
    });
  });

  it('counts a repeated upload once', async () => {
    const records = [counted({ amount: 3 }), counted({ amount: 4 })];
    await upload(records);
    await upload(records);
    await Promise.all([upload(records), upload(records)]);
    expect((await usage()).buckets).toMatchObject([{ calls: 2, sums: { amount: 7 } }]);
  });

  it('covers only the sidecar’s own agent', async () => {
    await upload([counted({})]);
    const foreign = await enrolledSidecar(gateway, await gateway.agent(`foreign ${agentId}`));
    expect((await foreign.controlPlane.usage('run_1', 0)).buckets).toEqual([]);
  });

  it('excludes decisions without usage and decisions of another day', async () => {
    const old = new Date(clock.now() - 26 * hourMs).toISOString();
    await upload([
      sidecar.record({ tool: 'pay' }),
      counted({}, 'run_1', { occurred_at: old }),
      counted({ amount: -5, fee: 'much' }),
    ]);
    expect((await usage()).buckets).toEqual([
      { tool: 'pay', minute: minute(), calls: 1, sums: {} },
    ]);
  });

  it('is refused for a malformed run id', async () => {
    await expect(usage('a run')).rejects.toMatchObject({ code: 'request.invalid' });
  });
});

it('usage is deleted when it is older than every budget window', async () => {
  const rows = () => services.db.usageMinute.count({ where: { agentId } });
  await upload([counted({ amount: 1 }), counted({})]);
  expect(await rows()).toBe(2);
  await sweepUsage({ pool, clock: { ...clock, now: () => clock.now() + 24 * hourMs } });
  expect(await rows()).toBe(2);
  await sweepUsage({ pool, clock: { ...clock, now: () => clock.now() + 25 * hourMs + minuteMs } });
  expect(await rows()).toBe(0);
});
