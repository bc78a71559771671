import fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, until } from '../../support/programs/processes.ts';
import {
  type FaultBench,
  type LedgerEvent,
  startFaultBench,
} from '../../support/system/fault-bench.ts';

const decisions = (events: LedgerEvent[], reason: string) =>
  events.filter((event) => event.type === 'decision' && event.reason_code === reason);

describe('a failing call gets a specific reason, which is sealed', () => {
  let bench: FaultBench;
  beforeAll(async () => {
    bench = await startFaultBench();
  }, 60_000);
  afterAll(() => bench?.close());

  async function expectSealed(reason: string) {
    await bench.untilSealed(
      `a decision for ${reason}`,
      (events) => decisions(events, reason).length > 0,
    );
  }

  it('if no rule matches: policy.no_match', async () => {
    const seen = bench.upstream.seen.length;
    const answer = await bench.pay(1000);
    expect(answer).toMatchObject({
      status: 403,
      body: { reason_code: 'policy.no_match', decision: 'deny' },
    });
    expect(answer.headers.get('sallyport-decision')).toContain('deny');
    expect(bench.upstream.seen).toHaveLength(seen);
    await expectSealed('policy.no_match');
  });

  it.each([
    ['invalid JSON', '{"amount":', 'args.schema_invalid'],
    ['a duplicate key', '{"amount":1,"amount":1}', 'args.duplicate_key'],
    ['an unpaired surrogate', '{"amount":1,"x":"\\ud800"}', 'args.encoding_invalid'],
    ['a number that overflows', '{"amount":1e400}', 'args.number_unsafe'],
    [
      'more than 64 levels of nesting',
      `{"amount":${'['.repeat(70)}${']'.repeat(70)}}`,
      'args.too_deep',
    ],
  ])('for an unreadable body, %s: %s', async (_what, body, reason) => {
    const seen = bench.upstream.seen.length;
    const answer = await bench.agent.post(bench.url, body);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(answer.body.reason_code).toBe(reason);
    expect(bench.upstream.seen).toHaveLength(seen);
    await expectSealed(reason);
  });

  it('for an unknown host: policy.no_match, and nothing is sent', async () => {
    const answer = await bench.agent.post(`http://localhost:${await freePort()}/unknown`, {});
    expect(answer).toMatchObject({ status: 403, body: { reason_code: 'policy.no_match' } });
  });

  it('for an unbound call on a bound host: proxy.unbound_call', async () => {
    const answer = await bench.agent.post(bench.url.replace('/pay', '/other'), {});
    expect(answer.body.reason_code).toBe('proxy.unbound_call');
    await expectSealed('proxy.unbound_call');
  });

  it('for an unreachable upstream: 502 upstream.unreachable, and the outcome is sealed', async () => {
    const host = `127.0.0.1:${await freePort()}`;
    await bench.separate.api('PUT', '/v1/runtime/bindings/gone', {
      protocol: 'http',
      host,
      method: 'POST',
      path: '/pay',
      body: 'json',
      tool: 'bank.pay',
      resource: 'account:main',
    });
    await until('the binding is in force', async () => {
      const answer = await bench.agent.post(`http://${host}/pay`, { amount: 1 });
      return answer.status === 502 && answer.body.reason_code === 'upstream.unreachable';
    });
    await bench.untilSealed('the outcome', (events) =>
      events.some(
        (event) =>
          event.type === 'execution.result' && event.reason_code === 'upstream.unreachable',
      ),
    );
  });

  it('for an upstream that resets the connection: 502 upstream.reset, and the outcome is sealed', async () => {
    bench.upstream.behave((req) => req.socket.resetAndDestroy());
    const answer = await bench.pay(1);
    expect(answer).toMatchObject({ status: 502, body: { reason_code: 'upstream.reset' } });
    bench.upstream.behave((_req, res) => res.end('{}'));
    await bench.untilSealed('the outcome', (events) =>
      events.some(
        (event) => event.type === 'execution.result' && event.reason_code === 'upstream.reset',
      ),
    );
  });
});

describe('a sidecar without a verified snapshot', () => {
  it('denies with sync.no_snapshot and is not ready; its refusals are sealed later', async () => {
    const bench = await startFaultBench();
    try {
      await bench.separate.sidecar.stop();
      await bench.separate.controlPlane.kill();
      fs.rmSync(join(bench.separate.dataDir, 'sidecar', 'snapshot.json'));
      await bench.redis.kill();
      await bench.redis.restart();
      await bench.separate.restartSidecar({ ready: false });
      await until(
        'the proxy answers',
        async () => (await bench.pay(1).catch(() => undefined)) !== undefined,
      );
      const seen = bench.upstream.seen.length;
      expect((await bench.pay(1)).body.reason_code).toBe('sync.no_snapshot');
      expect((await fetch(`${bench.separate.adminUrl}/readyz`)).status).toBe(503);
      expect(bench.upstream.seen).toHaveLength(seen);
      await bench.separate.restartControlPlane();
      await until('calls go on', async () => (await bench.pay(1)).status === 200);
      await bench.untilSealed(
        'the refusals',
        (events) => decisions(events, 'sync.no_snapshot').length > 0,
      );
    } finally {
      await bench.close();
    }
  });
});

describe('an upstream that never answers', () => {
  it('results in 504 upstream.timeout, and the outcome is sealed', async () => {
    const bench = await startFaultBench({ SALLYPORT_UPSTREAM_TIMEOUT_MS: '500' });
    try {
      bench.upstream.behave(() => {});
      expect(await bench.pay(1)).toMatchObject({
        status: 504,
        body: { reason_code: 'upstream.timeout' },
      });
      await bench.untilSealed('the outcome', (events) =>
        events.some(
          (event) => event.type === 'execution.result' && event.reason_code === 'upstream.timeout',
        ),
      );
    } finally {
      await bench.close();
    }
  });
});

describe('a sidecar without Redis', () => {
  it('decides until its replica is too old, denies presented passports at once, and recovers with Redis', async () => {
    const bench = await startFaultBench({ SALLYPORT_MAX_STALENESS_MS: '4000' });
    try {
      const issued = await bench.separate.api('POST', '/v1/agents/issue-passport', {
        agent_id: Number(bench.separate.agentId),
        requested_tools: ['bank.pay'],
        risk_tier: 'low',
      });
      const passport = String(issued.body.token);
      await bench.redis.kill();
      expect((await bench.pay(2)).status).toBe(200);
      expect((await bench.pay(2, { 'action-passport': passport })).body.reason_code).toBe(
        'passport.claim_unavailable',
      );
      await until('the replica is too old', async () => {
        const answer = await bench.pay(3);
        return answer.body.reason_code === 'policy.update_required';
      });
      await bench.redis.restart();
      await until('calls go on', async () => (await bench.pay(4)).status === 200, 30_000);
      await bench.untilSealed(
        'the refusals',
        (events) => decisions(events, 'policy.update_required').length > 0,
      );
      expect((await bench.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
    } finally {
      await bench.close();
    }
  });
});

describe('a sidecar without the control plane', () => {
  it('still performs calls, keeps evidence in the spool, and uploads it afterwards so that it is sealed exactly once', async () => {
    const bench = await startFaultBench();
    try {
      await bench.separate.controlPlane.kill();
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => bench.pay(n + 1)));
      expect(answers.every(({ status }) => status === 200)).toBe(true);
      await bench.separate.restartControlPlane();
      await expectEveryCallOnce(bench);
    } finally {
      await bench.close();
    }
  });

  it('records one decision and one outcome of each call, even if the control plane is killed during 500 calls', async () => {
    const bench = await startFaultBench();
    try {
      const calls = Array.from({ length: 500 }, (_, n) =>
        bench.pay((n % 100) + 1).catch(() => undefined),
      );
      await until('some calls arrived', () => bench.upstream.seen.length > 100);
      await bench.separate.controlPlane.kill();
      await Promise.all(calls);
      await bench.separate.restartControlPlane();
      await expectEveryCallOnce(bench);
    } finally {
      await bench.close();
    }
  });
});

describe('a sidecar without Postgres', () => {
  it('still performs calls, whose evidence is sealed when Postgres is available again', async () => {
    const { startPostgres } = await import('../../support/programs/postgres.ts');
    const postgres = await startPostgres();
    const bench = await startFaultBench({}, postgres.url);
    try {
      await postgres.kill();
      expect((await bench.pay(7)).status).toBe(200);
      await postgres.restart();
      await expectEveryCallOnce(bench);
    } finally {
      await bench.close();
      await postgres.stop();
    }
  });
});

describe('a spool that is not writable', () => {
  it('because its disk is full denies every call with evidence.seal_failed, and nothing is sent', async () => {
    const bench = await startFaultBench({ SALLYPORT_SPOOL_BYTES_MAX: '20000' });
    try {
      await bench.separate.controlPlane.kill();
      await until(
        'the spool is full',
        async () => (await bench.pay(1)).body.reason_code === 'evidence.seal_failed',
      );
      const seen = bench.upstream.seen.length;
      const refused = await bench.pay(1);
      expect(refused).toMatchObject({ status: 403, body: { reason_code: 'evidence.seal_failed' } });
      expect(bench.upstream.seen).toHaveLength(seen);
      await bench.separate.restartControlPlane();
      await until('calls go on', async () => (await bench.pay(1)).status === 200);
    } finally {
      await bench.close();
    }
  });

  it('because its folder was replaced by a file denies every call, and nothing is sent', async () => {
    const bench = await startFaultBench();
    try {
      const spool = join(bench.separate.dataDir, 'sidecar', 'spool');
      // The sidecar creates the folder again at its next write, so this may need several attempts.
      await until('a file is in its place', () => isReplaced(spool));
      const seen = bench.upstream.seen.length;
      expect((await bench.pay(1)).body.reason_code).toBe('evidence.seal_failed');
      expect(bench.upstream.seen).toHaveLength(seen);
      fs.rmSync(spool);
      expect((await bench.pay(1)).status).toBe(200);
    } finally {
      await bench.close();
    }
  });
});

function isReplaced(folder: string): boolean {
  try {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.writeFileSync(folder, 'in the way');
    return true;
  } catch {
    return false;
  }
}

/**
 * Expects one allowing decision and one outcome for every request that the upstream saw, in an intact ledger.
 */
async function expectEveryCallOnce(bench: FaultBench): Promise<void> {
  const performed = bench.upstream.seen.length;
  const outcomes = (events: LedgerEvent[]) =>
    events.filter((event) => event.type === 'execution.result');
  const events = await bench.untilSealed(
    `${performed} outcomes are sealed`,
    (all) => outcomes(all).length >= performed,
    30_000,
  );
  const allowed = new Set(
    events
      .filter((event) => event.type === 'decision' && event.decision === 'allow')
      .map((event) => event.id),
  );
  const ofDecision = outcomes(events).map((event) => String(event.data.decision_event_id));
  expect(ofDecision).toHaveLength(performed);
  expect(new Set(ofDecision).size).toBe(performed);
  expect(ofDecision.every((id) => allowed.has(id))).toBe(true);
  expect(events.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1));
  expect((await bench.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
}
