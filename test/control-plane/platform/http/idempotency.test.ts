import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../../../control-plane/platform/access/caller.ts';
import {
  type IdempotentCall,
  idempotent,
  sweepIdempotency,
} from '../../../../control-plane/platform/http/idempotency.ts';
import { GatewayError } from '../../../../shared/errors/gateway-error.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';

let services: TestServices;

beforeAll(async () => {
  services = await testServices();
});

afterAll(() => services?.close());

const caller: Caller = {
  kind: 'key',
  tenantId: 't1',
  principal: 'p',
  role: 'agent',
  scope: 'tenant',
  permissions: new Set(),
  keyId: 'key_1',
  address: '127.0.0.1',
};

let counter = 0;
const call = (more: Partial<IdempotentCall> = {}): IdempotentCall => ({
  services,
  caller,
  operation: 'preflight',
  agentId: '7',
  key: `k${counter}`,
  payload: { tool: 'x' },
  ...more,
});
const fresh = () => {
  counter += 1;
  return call();
};

/** Returns an operation that counts how often it runs. */
function counted(status = 200) {
  let runs = 0;
  const run = async () => {
    runs += 1;
    return { status, body: { run: runs } };
  };
  return { run, runs: () => runs };
}

describe('a repeated idempotency key', () => {
  it('with the same payload returns the first response without running the operation again', async () => {
    const { run, runs } = counted();
    const first = await idempotent(fresh(), run);
    const second = await idempotent(call({ payload: { tool: 'x' } }), run);
    expect([first, second, runs()]).toEqual([
      { status: 200, body: { run: 1 } },
      { status: 200, body: { run: 1 } },
      1,
    ]);
  });

  it('with the same payload members in a different order does not run the operation again', async () => {
    const { run, runs } = counted();
    await idempotent({ ...fresh(), payload: { a: 1, b: { c: 2, d: 3 } } }, run);
    await idempotent(call({ payload: { b: { d: 3, c: 2 }, a: 1 } }), run);
    expect(runs()).toBe(1);
  });

  it('with a different payload is refused as a conflict, and the operation does not run', async () => {
    const { run, runs } = counted();
    await idempotent(fresh(), run);
    const other = idempotent(call({ payload: { tool: 'y' } }), run);
    await expect(other).rejects.toMatchObject({ code: 'args.idempotency_conflict' });
    expect(runs()).toBe(1);
  });

  it.each<[string, Partial<IdempotentCall>]>([
    ['tenant', { caller: { ...caller, tenantId: 't2' } }],
    ['API key', { caller: { ...caller, keyId: 'key_2' } }],
    ['agent', { agentId: '8' }],
    ['operation', { operation: 'execute' }],
  ])('runs the operation again if it was first used for a different %s', async (_what, more) => {
    const { run, runs } = counted();
    await idempotent(fresh(), run);
    await idempotent(call(more), run);
    expect(runs()).toBe(2);
  });

  it('runs the operation once for many concurrent requests to several control planes', async () => {
    const { run, runs } = counted();
    const asked = fresh();
    const replicas = [services, { ...services }];
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        idempotent({ ...asked, services: replicas[index % 2] ?? services }, run),
      ),
    );
    expect(runs()).toBe(1);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  });

  it('waits for the first request to finish, or is refused at once if the payload differs', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const asked = fresh();
    const slow = idempotent(asked, async () => {
      await promise;
      return { status: 200, body: 'slow' };
    });
    await expect.poll(() => services.db.idempotency.count({ where: { key: asked.key } })).toBe(1);
    const waiting = idempotent(asked, counted().run);
    await expect(
      idempotent({ ...asked, payload: { tool: 'y' } }, counted().run),
    ).rejects.toMatchObject({ code: 'args.idempotency_conflict' });
    resolve();
    expect((await waiting).body).toBe('slow');
    expect((await slow).body).toBe('slow');
  });

  it('returns the stored refusal unchanged', async () => {
    let runs = 0;
    const refuse = async () => {
      runs += 1;
      throw new GatewayError('passport.replay_detected', { details: { decision: 'deny' } });
    };
    const expected = { code: 'passport.replay_detected', details: { decision: 'deny' } };
    await expect(idempotent(fresh(), refuse)).rejects.toMatchObject(expected);
    await expect(idempotent(call(), refuse)).rejects.toMatchObject(expected);
    expect(runs).toBe(1);
  });

  it.each([500, 503, 429])(
    'runs the operation again after a response with status %i',
    async (status) => {
      const failing = counted(status);
      await idempotent(fresh(), failing.run);
      const again = counted();
      expect((await idempotent(call(), again.run)).status).toBe(200);
      expect(again.runs()).toBe(1);
    },
  );

  it('runs the operation again after a response that was caused by an outage', async () => {
    const one = fresh();
    const passing = await idempotent(one, async () => ({
      status: 200,
      body: 'later',
      isPassing: true,
    }));
    expect(passing).toEqual({ status: 200, body: 'later' });
    const { run, runs } = counted();
    await idempotent(one, run);
    await idempotent(one, run);
    expect(runs()).toBe(1);
  });

  it('runs the operation again after an unexpected error', async () => {
    const failing = idempotent(fresh(), async () => {
      throw new Error('lost');
    });
    await expect(failing).rejects.toThrow('lost');
    expect((await idempotent(call(), counted().run)).status).toBe(200);
  });

  it('can be used again after a day', async () => {
    const { run, runs } = counted();
    await idempotent(fresh(), run);
    services.clock.advance(24 * 60 * 60 * 1000);
    await idempotent(call({ payload: { tool: 'other' } }), run);
    expect(runs()).toBe(2);
  });
});

describe('a first request that did not finish', () => {
  const abandon = async () => {
    const asked = fresh();
    // This request never completes, as if its process had ended.
    void idempotent(asked, () => new Promise(() => {}));
    await expect.poll(() => services.db.idempotency.count({ where: { key: asked.key } })).toBe(1);
    services.clock.advance(120_000);
    return asked;
  };

  it('is run again exactly once if it has no external effect', async () => {
    const asked = await abandon();
    const { run, runs } = counted();
    await Promise.all(Array.from({ length: 6 }, () => idempotent(asked, run)));
    expect(runs()).toBe(1);
  });

  it('is not run again if its effect had begun; repeats return the stored outcome, which is recorded once', async () => {
    const asked = fresh();
    const lost = { status: 200, body: 'unknown' };
    void idempotent(asked, async (begin) => {
      await begin(lost);
      return new Promise(() => {});
    });
    const begun = { where: { key: asked.key, body: { not: null } } };
    await expect.poll(() => services.db.idempotency.count(begun)).toBe(1);
    services.clock.advance(120_000);
    const noted: unknown[] = [];
    const { run, runs } = counted();
    const repeat: IdempotentCall = {
      ...asked,
      onLost: async ({ answer, settle }) => {
        if (await settle(services.db)) noted.push(answer);
      },
    };
    const answers = await Promise.all(Array.from({ length: 8 }, () => idempotent(repeat, run)));
    expect(answers).toEqual(Array(8).fill(lost));
    expect([runs(), noted]).toEqual([0, [lost]]);
  });

  it('cannot begin its effect after a repeat has taken over the key', async () => {
    const asked = fresh();
    const gate = Promise.withResolvers<void>();
    let begun = false;
    const slow = idempotent(asked, async (begin) => {
      await gate.promise;
      await begin({ status: 200, body: 'unknown' });
      begun = true;
      return { status: 200, body: 'slow' };
    });
    await expect.poll(() => services.db.idempotency.count({ where: { key: asked.key } })).toBe(1);
    services.clock.advance(120_000);
    const { run, runs } = counted();
    await idempotent(asked, run);
    gate.resolve();
    await expect(slow).rejects.toMatchObject({ code: 'args.idempotency_in_flight' });
    expect([begun, runs()]).toEqual([false, 1]);
  });

  it('is not run again if it failed after its effect had begun', async () => {
    const asked = fresh();
    const broken = idempotent(asked, async (begin) => {
      await begin({ status: 200, body: 'unknown' });
      throw new Error('lost');
    });
    await expect(broken).rejects.toThrow('lost');
    const { run, runs } = counted();
    expect((await idempotent(asked, run)).body).toBe('unknown');
    expect(runs()).toBe(0);
  });
});

describe('the stored idempotency row', () => {
  it('does not reveal payload and response to a client with read access to the database', async () => {
    await idempotent({ ...fresh(), payload: { amount: 25 } }, async () => ({
      status: 200,
      body: { secret: 'hunter2' },
    }));
    const row = await services.db.idempotency.findFirstOrThrow({ where: { key: call().key } });
    expect(JSON.stringify(row)).not.toContain('hunter2');
    expect(row.fingerprint).toMatch(/^[0-9a-f]{64}$/);
  });

  it('cannot be moved to another key in the database', async () => {
    const asked = fresh();
    await idempotent(asked, counted().run);
    await services.db.idempotency.updateMany({
      where: { key: asked.key },
      data: { agentId: '9' },
    });
    const moved = idempotent({ ...asked, agentId: '9' }, counted().run);
    await expect(moved).rejects.toMatchObject({ code: 'credential.unreadable' });
  });

  it('is deleted after a day', async () => {
    const asked = fresh();
    await idempotent(asked, counted().run);
    await sweepIdempotency(services);
    expect(await services.db.idempotency.count({ where: { key: asked.key } })).toBe(1);
    services.clock.advance(24 * 60 * 60 * 1000);
    await sweepIdempotency(services);
    expect(await services.db.idempotency.count()).toBe(0);
  });

  it('has a key of bounded length', async () => {
    const long = idempotent({ ...fresh(), key: 'k'.repeat(301) }, counted().run);
    await expect(long).rejects.toMatchObject({ code: 'args.schema_invalid' });
  });
});
