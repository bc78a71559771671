import { startPostgres } from '../support/programs/postgres.ts';
import { startRedis } from '../support/programs/redis.ts';
import { type Separate, startSeparate } from '../support/system/separate.ts';
import { cores, pin, startBaseline } from './baseline.ts';
import { assertVerifies } from './ledger-check.ts';
import { type Load, load } from './load.ts';
import { benchPolicy, tool } from './policy-rules.ts';
import { type BenchRow, summarise } from './row.ts';

const rounds = 3;

/**
 * Measures `/v1/actions/preflight` with sealing on real Postgres, compared with an Express server
 * that echoes the same body.
 */
export async function benchPreflight(): Promise<BenchRow[]> {
  const postgres = await startPostgres({ durable: true });
  const redis = await startRedis();
  const addresses = { databaseUrl: postgres.url, redisUrl: redis.url };
  const separate = await startSeparate({ ...addresses, isLogFiled: true });
  const echo = await startBaseline<{ port: number }>('echo.ts', {
    env: { NODE_ENV: 'production' },
    on: cores.measured,
  });
  try {
    await separate.sidecar.stop();
    pin(separate.controlPlane, cores.measured);
    await separate.api('POST', '/v1/policies', {
      name: 'bench',
      publish: true,
      rules_json: benchPolicy,
    });
    const row = await compare(separate, echo.ready.port);
    await assertVerifies(separate);
    return [row];
  } finally {
    await echo.kill();
    await separate.close();
    await redis.stop();
    await postgres.stop();
  }
}

async function compare(separate: Separate, echoPort: number): Promise<BenchRow> {
  const body = JSON.stringify({
    tool,
    resource: 'account:main',
    agent_id: separate.agentId,
    user_id: 'user_1',
    args: { amount: 5, note: 'x'.repeat(700) },
  });
  const common = { body, connections: 32, warmupMs: 2_000, measureMs: 5_000 };
  const ours: Load = {
    ...common,
    port: Number(new URL(separate.origin).port),
    path: '/api/v1/actions/preflight',
    headers: { Authorization: `Bearer ${separate.ownerKey}` },
    answerIncludes: '"decision":"allow"',
  };
  const theirs: Load = { ...common, port: echoPort, path: '/echo', answerIncludes: body };
  const rates: { ours: number[]; theirs: number[]; p99: number[] } = {
    ours: [],
    theirs: [],
    p99: [],
  };
  for (let round = 0; round < rounds; round++) {
    rates.theirs.push((await load(theirs)).perSecond);
    const measured = await load(ours);
    rates.ours.push(measured.perSecond);
    rates.p99.push(measured.p99);
  }
  const [our, their] = [summarise(rates.ours), summarise(rates.theirs)];
  return {
    row: `preflight with sealing, 32 connections (p99 ${summarise(rates.p99).median.toFixed(1)} ms)`,
    ours: our.median,
    baseline: their.median,
    baselineName: 'Express JSON echo',
    ratio: our.median / their.median,
    unit: 'requests/s',
    spread: our.spread,
  };
}
