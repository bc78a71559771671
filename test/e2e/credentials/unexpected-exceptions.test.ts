import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { StoppableCalls } from '../../../proxy/enforce/calls-in-flight.ts';
import { type Sidecar, startSidecar } from '../../../proxy/main.ts';
import { LiveDrift } from '../../../proxy/mcp/live-drift.ts';
import { Credentials } from '../../../proxy/replica/credentials.ts';
import { readConfig } from '../../../proxy/settings/config.ts';
import { Spool } from '../../../proxy/spool/spool.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import { ArgumentSet } from '../../../shared/binding/args.ts';
import { until } from '../../support/programs/processes.ts';
import { type AgentClient, agentClient } from '../../support/sidecar/agent-client.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

/** The sidecar runs in this process, so that its parts can be made to fail; everything else is real. */
describe('an exception within enforcement', () => {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'unexpected-'));
  const logged: string[] = [];
  const keep = (...line: unknown[]) => logged.push(JSON.stringify(line));
  const log: Log = { ...silentLog, warn: keep, error: keep };
  let bench: FaultBench;
  let sidecar: Sidecar;
  let agent: AgentClient;

  beforeAll(async () => {
    bench = await startFaultBench();
    const token = await bench.separate.api('POST', '/v1/sidecars/tokens', {
      agent_id: bench.separate.agentId,
      user_id: 'user_1',
    });
    const env = {
      SALLYPORT_PROXY_PORT: '0',
      SALLYPORT_PROXY_ADMIN_PORT: '0',
      SALLYPORT_DATA_DIR: dataDir,
      SALLYPORT_CONTROL_PLANE_URL: bench.separate.origin,
      SALLYPORT_ENROLMENT_TOKEN: String(token.body.token),
      SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
      REDIS_URL: bench.redis.url,
    };
    const readFile = () => '';
    sidecar = await startSidecar(readConfig({ env, readFile }), { log });
    agent = agentClient(sidecar.proxyUrl);
    await until('calls go through', async () => (await pay()).status === 200);
  }, 60_000);
  afterEach(() => vi.restoreAllMocks());
  afterAll(async () => {
    await agent?.close();
    await sidecar?.close();
    await bench?.close();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });

  const pay = () => agent.post(bench.url, { amount: 1 });
  const fail = () => {
    throw new TypeError('x is not a function of 1-as-an-argument');
  };

  it.each([
    ['judging', () => vi.spyOn(LiveDrift.prototype, 'recordOf').mockImplementation(fail)],
    [
      'reading credentials',
      () => vi.spyOn(Credentials.prototype, 'forCall').mockImplementation(fail),
    ],
    ['performing', () => vi.spyOn(StoppableCalls.prototype, 'add').mockImplementation(fail)],
    ['recognising', () => vi.spyOn(ArgumentSet.prototype, 'add').mockImplementation(fail)],
    [
      'recording the decision',
      () => vi.spyOn(Spool.prototype, 'append').mockImplementationOnce(fail),
    ],
  ])(
    'while %s causes a denial with internal.unexpected and a sealed event, and the next call is performed',
    async (_where, breakIt) => {
      const seen = bench.upstream.seen.length;
      logged.length = 0;
      breakIt();
      const answer = await pay();
      expect(answer).toMatchObject({
        status: 500,
        body: { decision: 'deny', reason_code: 'internal.unexpected' },
      });
      expect(JSON.stringify(answer.body)).not.toContain('not a function');
      expect(bench.upstream.seen).toHaveLength(seen);
      expect(logged.filter((line) => line.includes('a call failed unexpectedly'))).toHaveLength(1);
      expect(logged.join('\n')).toMatch(/"error":"TypeError","at":\["at /);
      expect(logged.join('\n')).not.toContain('as-an-argument');
      vi.restoreAllMocks();
      await bench.untilSealed('the denial', (events) =>
        events.some(
          ({ id, type, decision, reason_code }) =>
            type === 'decision' &&
            decision === 'deny' &&
            reason_code === 'internal.unexpected' &&
            (id === answer.body.evidence_event_id || answer.body.evidence_event_id !== undefined),
        ),
      );
      expect((await pay()).status).toBe(200);
    },
  );
});
