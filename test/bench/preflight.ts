import { startPostgres } from '../support/postgres.ts';
import { startProgram, until } from '../support/processes.ts';
import { startRedis } from '../support/redis.ts';
import { startSeparate } from '../support/separate.ts';
import { load, summarise } from './load.ts';
import type { BenchRow } from './row.ts';

const rounds = 3;
const secondsPerRound = 5;

/** `/v1/actions/preflight` with sealing on real Postgres, against an Express echo of the same body. */
export async function benchPreflight(): Promise<BenchRow[]> {
  const postgres = await startPostgres();
  const redis = await startRedis();
  const separate = await startSeparate({ databaseUrl: postgres.url, redisUrl: redis.url });
  const echo = startProgram('test/bench/baselines/echo.ts', {});
  try {
    await separate.sidecar.stop();
    await until('the echo listens', () => /port \d+/.test(echo.output()));
    await separate.api('POST', '/v1/policies', {
      name: 'bench',
      publish: true,
      rules_json: policy,
    });
    const body = JSON.stringify({
      tool: 'bank.pay',
      resource: 'account:main',
      agent_id: separate.agentId,
      user_id: 'user_1',
      args: { amount: 5, note: 'x'.repeat(700) },
    });
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${separate.ownerKey}`,
    };
    const common = { headers, body, connections: 32 };
    const ours = {
      ...common,
      origin: separate.origin,
      path: '/api/v1/actions/preflight',
      check: isAllowed,
    };
    const port = /port (\d+)/.exec(echo.output())?.[1];
    const baseline = {
      ...common,
      origin: `http://127.0.0.1:${port}`,
      path: '/echo',
      check: isEcho(body),
    };
    await load({ ...ours, seconds: 2 });
    await load({ ...baseline, seconds: 2 });
    const measured = { ours: [] as number[], baseline: [] as number[], p99: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      measured.baseline.push((await load({ ...baseline, seconds: secondsPerRound })).perSecond);
      const { perSecond, p99Ms } = await load({ ...ours, seconds: secondsPerRound });
      measured.ours.push(perSecond);
      measured.p99.push(p99Ms);
    }
    const report = await separate.api('GET', '/v1/evidence/verify');
    if (report.body.ok !== true)
      throw new Error(`the ledger does not verify: ${JSON.stringify(report.body)}`);
    return [rowOf(measured)];
  } finally {
    await echo.kill();
    await separate.close();
    await redis.stop();
    await postgres.stop();
  }
}

function rowOf(measured: {
  readonly ours: readonly number[];
  readonly baseline: readonly number[];
  readonly p99: readonly number[];
}): BenchRow {
  const ours = summarise(measured.ours);
  const baseline = summarise(measured.baseline);
  return {
    row: `preflight with sealing, 32 connections (p99 ${summarise(measured.p99).median.toFixed(1)} ms)`,
    ours: ours.median,
    baseline: baseline.median,
    baselineName: 'Express JSON echo',
    ratio: ours.median / baseline.median,
    unit: 'requests/s',
    spread: ours.spread,
  };
}

function isAllowed(status: number, body: string): void {
  if (status !== 200 || !body.includes('"allow"'))
    throw new Error(`preflight answered ${status}: ${body}`);
}

function isEcho(sent: string) {
  return (status: number, body: string) => {
    if (status !== 200 || body !== sent) throw new Error(`the echo answered ${status}`);
  };
}

const policy = {
  id: 'bench',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'pay.small',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '<=', value: 100 },
        ],
      },
    },
  ],
};
