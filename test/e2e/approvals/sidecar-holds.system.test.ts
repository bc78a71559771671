import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startProgram, until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

const gated = {
  id: 'gated',
  version: 1,
  rules: [
    {
      name: 'large',
      decision: 'require_approval',
      reason: 'pay.large',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '>', value: 1000 },
        ],
      },
    },
  ],
};

async function startGatedBench(env: Record<string, string> = {}): Promise<FaultBench> {
  const bench = await startFaultBench(env);
  const { api } = bench.separate;
  await api('POST', '/v1/policies', { name: 'gated', publish: true, rules_json: gated });
  await until('the gate is in force', async () => {
    // A call that has no answer after half a second is held for a human.
    const answer = await Promise.race([bench.pay(1000.5).catch(() => undefined), delay(500)]);
    return answer === undefined || answer.status === 202;
  });
  return bench;
}

/** Waits for the pending approval of this amount; returns its id. */
async function waiting(bench: FaultBench, amount: number): Promise<number> {
  let id = 0;
  await until(`an approval of ${amount} waits`, async () => {
    const { body } = await bench.separate.api('GET', '/v1/approvals?status=pending');
    const open = (body.approvals ?? body.items ?? []) as Record<string, unknown>[];
    const mine = open.find((one) => JSON.stringify(one).includes(`"amount":${amount}`));
    id = Number(mine?.id ?? mine?.approval_id ?? 0);
    return id > 0;
  });
  return id;
}

/** Returns the state of an approval as the agent reads it. */
async function statusAt(proxyUrl: string, id: number): Promise<string> {
  const [response] = await once(
    httpRequest(proxyUrl, {
      path: `http://sallyport.internal/approvals/${id}`,
      headers: { host: 'sallyport.internal' },
    }).end(),
    'response',
  );
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return (JSON.parse(Buffer.concat(chunks).toString()) as { status: string }).status;
}

const approve = (bench: FaultBench, id: number, body: object = { action: 'approve' }) =>
  bench.separate.api('POST', `/v1/approvals/${id}/decide`, body);

describe('a held call', () => {
  let bench: FaultBench;
  beforeAll(async () => {
    bench = await startGatedBench({ SALLYPORT_HOLD_MS: '8000' });
  }, 90_000);
  afterAll(() => bench?.close());

  it('is performed once when it is approved', async () => {
    const seen = bench.upstream.seen.length;
    const answer = bench.pay(2001);
    await approve(bench, await waiting(bench, 2001));
    expect((await answer).status).toBe(200);
    expect(bench.upstream.seen).toHaveLength(seen + 1);
  });

  it('that is sent twice concurrently is performed once with one grant', async () => {
    const seen = bench.upstream.seen.length;
    const answers = [bench.pay(2002), bench.pay(2002)];
    await approve(bench, await waiting(bench, 2002));
    const statuses = (await Promise.all(answers)).map(({ status }) => status).sort();
    expect(statuses).toEqual([200, 403]);
    expect(bench.upstream.seen).toHaveLength(seen + 1);
  });

  it('of an agent that disconnected is not performed when it is approved, and uses no grant', async () => {
    const seen = bench.upstream.seen.length;
    const { proxyUrl } = bench.separate;
    const request = httpRequest(proxyUrl, {
      method: 'POST',
      path: bench.url,
      headers: { host: new URL(bench.url).host, 'content-type': 'application/json' },
    });
    request.on('error', () => {});
    request.end('{"amount":2003}');
    const id = await waiting(bench, 2003);
    request.destroy();
    await approve(bench, id);
    await until('the grant has arrived', async () => (await statusAt(proxyUrl, id)) === 'approved');
    expect(bench.upstream.seen).toHaveLength(seen);
    expect((await bench.pay(2003)).status).toBe(200);
    expect(bench.upstream.seen).toHaveLength(seen + 1);
  });

  it('with a presented passport uses the grant for the user of that passport, during and after the hold', async () => {
    const { api, agentId } = bench.separate;
    const passport = async () => {
      const issued = await api('POST', '/v1/passports/issue', {
        tenant_id: 'default',
        agent_id: agentId,
        user_id: 'someone_else',
        goal: 'Work',
        allowed_tools: ['**'],
        risk_tier: 'low',
        policy_id: 'pay',
        approval_hash: null,
        audience: 'gateway://agents',
        ttl_seconds: 300,
      });
      return { 'action-passport': String(issued.body.passport) };
    };
    const seen = bench.upstream.seen.length;
    const answer = bench.pay(2004, await passport());
    await approve(bench, await waiting(bench, 2004));
    expect((await answer).status).toBe(200);
    expect(bench.upstream.seen).toHaveLength(seen + 1);
    const events = await bench.untilSealed('the decision is sealed', (all) =>
      all.some(({ reason_code }) => reason_code === 'approval.satisfied'),
    );
    expect(events.some(({ data }) => data.acted_for === 'someone_else')).toBe(true);
  });

  it('is refused if the approver’s modified arguments cannot be sent, and nothing reaches the upstream', async () => {
    const seen = bench.upstream.seen.length;
    const answer = bench.pay(2005);
    const id = await waiting(bench, 2005);
    const decided = await approve(bench, id, {
      action: 'modify',
      modified_args: { _method: 'DELETE' },
    });
    const { status, body } = await (decided.status === 200 ? answer : bench.pay(1_000_000));
    if (decided.status === 200) expect(status).toBeGreaterThanOrEqual(400);
    expect(body.reason_code).not.toBe('internal.unexpected');
    expect(bench.upstream.seen).toHaveLength(seen);
  });

  it('is refused with approval.unavailable if the control plane does not respond, and the refusal is sealed', async () => {
    process.kill(bench.separate.controlPlane.pid, 'SIGSTOP');
    try {
      const started = performance.now();
      const answer = await bench.pay(2007);
      expect(answer).toMatchObject({ status: 403, body: { reason_code: 'approval.unavailable' } });
      expect(performance.now() - started).toBeLessThan(15_000);
    } finally {
      process.kill(bench.separate.controlPlane.pid, 'SIGCONT');
    }
    await bench.untilSealed('the refusal', (all) =>
      all.some(({ reason_code }) => reason_code === 'approval.unavailable'),
    );
  });
});

describe('the evidence of a call to a very long host name', () => {
  it('does not delay later evidence', async () => {
    const bench = await startFaultBench();
    try {
      const label = 'a'.repeat(60);
      const longest = `${label}.${label}.${label}.${label}.aaaaaaa`;
      await bench.agent.post(`http://${longest}/`, {});
      await bench.pay(3);
      await bench.untilSealed('what followed', (all) =>
        all.some(({ type, tool }) => type === 'decision' && tool?.startsWith('http.post.aaaa')),
      );
    } finally {
      await bench.close();
    }
  });
});

describe('a sidecar that receives SIGTERM', () => {
  it('answers held calls, completes calls in progress, uploads the spool and exits with 0 in seconds', async () => {
    const bench = await startGatedBench({ SALLYPORT_HOLD_MS: '60000' });
    try {
      let finish = () => {};
      bench.upstream.behave((_req, res) => {
        finish = () => res.end('{}');
      });
      const flying = bench.pay(5);
      const held = bench.pay(3001);
      await waiting(bench, 3001);
      await until('the call is under way', () =>
        bench.upstream.seen.some(({ body }) => body.includes(':5}')),
      );
      const started = performance.now();
      const exit = bench.separate.sidecar.stop();
      expect((await held).status).toBe(202);
      finish();
      expect((await flying).status).toBe(200);
      expect(await exit).toBe(0);
      expect(performance.now() - started).toBeLessThan(8_000);
      const events = await bench.events();
      const performed = bench.upstream.seen.length;
      expect(events.filter(({ type }) => type === 'execution.result')).toHaveLength(performed);
    } finally {
      await bench.close();
    }
  });

  it('exits in seconds even without the control plane and Redis; the evidence is sealed after the next start', async () => {
    const bench = await startFaultBench();
    try {
      process.kill(bench.separate.controlPlane.pid, 'SIGSTOP');
      await bench.redis.kill();
      expect((await bench.pay(9)).status).toBe(200);
      const started = performance.now();
      expect(await bench.separate.sidecar.stop()).toBe(0);
      expect(performance.now() - started).toBeLessThan(15_000);
      await bench.redis.restart();
      process.kill(bench.separate.controlPlane.pid, 'SIGCONT');
      await bench.separate.restartSidecar();
      const performed = bench.upstream.seen.length;
      await bench.untilSealed(
        'all outcomes',
        (all) => all.filter(({ type }) => type === 'execution.result').length === performed,
      );
      expect((await bench.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
    } finally {
      await bench.close();
    }
  });
});

describe('a second sidecar on the same data directory', () => {
  it('does not start, reports the cause, and does not affect the first sidecar', async () => {
    const bench = await startFaultBench();
    try {
      const { dataDir, origin } = bench.separate;
      const second = startProgram('proxy/main.ts', {
        SALLYPORT_PROXY_PORT: '0',
        SALLYPORT_PROXY_ADMIN_PORT: '0',
        SALLYPORT_DATA_DIR: `${dataDir}/sidecar`,
        SALLYPORT_CONTROL_PLANE_URL: origin,
        SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
        REDIS_URL: bench.redis.url,
      });
      expect(await second.exited()).toBe(1);
      expect(second.output()).toContain('SALLYPORT_DATA_DIR');
      expect((await bench.pay(1)).status).toBe(200);
    } finally {
      await bench.close();
    }
  });
});

describe('a tunnel that is being opened', () => {
  it('is closed and recorded if its agent disconnects', async () => {
    const bench = await startFaultBench();
    try {
      const { api, proxyUrl, adminUrl } = bench.separate;
      const host = `localhost:${bench.upstream.port}`;
      await api('PUT', '/v1/runtime/bindings/model', { protocol: 'passthrough', host });
      const open = () =>
        new Promise<void>((resolve) => {
          const socket = connect(Number(new URL(proxyUrl).port), '127.0.0.1', () => {
            socket.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`, () => {
              socket.resetAndDestroy();
              resolve();
            });
          });
          socket.on('error', () => {});
        });
      const tunnels = async () =>
        (await bench.events()).filter(({ tool }) => tool === 'passthrough.model');
      await until('the binding is in force', async () => {
        await open();
        return (await tunnels()).length > 0;
      });
      await Promise.all(Array.from({ length: 20 }, open));
      await until('all tunnels that were begun have ended', async () => {
        const events = await tunnels();
        const begun = events.filter(({ type }) => type === 'decision').length;
        return (
          begun > 1 && events.filter(({ type }) => type === 'execution.result').length === begun
        );
      });
      await until('none is under way', async () => {
        const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
        return metrics.includes('sallyport_calls_in_flight 0\n');
      });
    } finally {
      await bench.close();
    }
  });
});
