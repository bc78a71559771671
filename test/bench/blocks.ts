import { startPostgres } from '../support/programs/postgres.ts';
import { startRedis } from '../support/programs/redis.ts';
import { type Separate, startSeparate } from '../support/system/separate.ts';
import { cores, pin } from './baseline.ts';
import { type BenchRow, summarise } from './row.ts';

const rounds = 3;

interface CostlyRequest {
  readonly name: string;
  readonly path: string;
  readonly body: () => string;
}

const exoticName = (at: number) => `Ǆ${at.toString(36)}ﬃ`;
const object = (count: number, name: (at: number) => string) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [name(at), 1]));

/** Returns globs at the limits of the API, which are the most expensive to compare. */
const hostileGlobs = (end: string) =>
  Array.from({ length: 1_000 }, (_, at) => `${'*a'.repeat(120)}${end}${at}*a`);

async function registerHostileAgent(separate: Separate): Promise<number> {
  const { response, body } = await post(
    separate,
    '/v1/agents/register',
    JSON.stringify({ name: 'bench-hostile', kind: 'bench', capabilities: hostileGlobs('') }),
  );
  const { agent_id: id } = body as { agent_id?: unknown };
  if (typeof id !== 'number') throw new Error(`registering answered ${response.status}`);
  return id;
}

/**
 * Returns the requests whose bodies cost the control plane the most. Callers of the lowest role,
 * `agent`, can send the first of them.
 */
function costlyRequests({ agentId }: Separate, hostileId: number): readonly CostlyRequest[] {
  const action = { tool: 'bank.pay', resource: 'account:main', agent_id: agentId, user_id: 'u' };
  const preflight = (name: string, args: () => unknown): CostlyRequest => ({
    name: `preflight, ${name}`,
    path: '/v1/actions/preflight',
    body: () => JSON.stringify({ ...action, args: args() }),
  });
  const rules = (count: number, text: string) =>
    Array.from({ length: count }, (_, at) => ({
      name: `rule ${at}`,
      decision: 'deny',
      reason: 'bench.rule',
      when: {
        all: [
          { path: 'tool.name', operator: 'matches', value: `^tool\\.${at}\\.[a-z]+$` },
          { path: 'args.note', operator: '==', value: text },
        ],
      },
    }));
  const properties = object(9_000, (at) => `property_${at}`);
  const wideManifest = { name: 'bench.wide', inputSchema: { type: 'object', properties } };
  const policy = (id: number, count: number) => ({
    id: `p${id}`,
    version: 1,
    rules: rules(count, 'x'.repeat(20)),
  });
  return [
    preflight('a megabyte of names', () => object(85_000, exoticName)),
    preflight('one name of a megabyte', () => ({ ['ﷺ'.repeat(340_000)]: 1 })),
    preflight('10,000 members', () => object(9_900, exoticName)),
    preflight('100,000 values', () => ({ list: Array(99_000).fill(1) })),
    preflight('numbers of many digits', () => ({ list: Array(19_000).fill(1.2345678901234567) })),
    preflight('a text of a megabyte', () => ({ note: 'é'.repeat(500_000) })),
    {
      name: 'passport, 1,000 globs by 1,000',
      path: '/v1/agents/issue-passport',
      body: () => JSON.stringify({ agent_id: hostileId, requested_tools: hostileGlobs('x') }),
    },
    {
      name: 'register, 1,000 globs over 1,000',
      path: '/v1/agents/register',
      body: () =>
        JSON.stringify({ name: 'bench-hostile', kind: 'bench', capabilities: hostileGlobs('y') }),
    },
    {
      name: 'lint of 9,000 rules',
      path: '/v1/policies/lint',
      body: () =>
        JSON.stringify({ policies: Array.from({ length: 9 }, (_, at) => policy(at, 1_000)) }),
    },
    {
      name: 'simulate by 1,000 rules',
      path: '/v1/simulate',
      body: () =>
        JSON.stringify({ policies: [policy(0, 1_000)], actions: [{ ...action, args: {} }] }),
    },
    {
      name: 'replay of 1,000 rules',
      path: '/v1/policies/replay',
      body: () => JSON.stringify({ policy: policy(0, 1_000), context: { args: {} } }),
    },
    {
      name: 'a manifest of 9,000 properties',
      path: '/v1/tools/ingest',
      body: () => JSON.stringify({ manifest: wideManifest }),
    },
    {
      name: 'backtest by 1,000 rules',
      path: '/v1/policies/backtest',
      body: () => JSON.stringify({ policy: policy(0, 1_000) }),
    },
  ];
}

/** Measures how long the costliest requests block the control plane's event loop. */
export async function benchBlocks(): Promise<BenchRow[]> {
  const postgres = await startPostgres({ durable: true });
  const redis = await startRedis();
  const separate = await startSeparate({
    databaseUrl: postgres.url,
    redisUrl: redis.url,
    isLogFiled: true,
  });
  try {
    await separate.sidecar.stop();
    pin(separate.controlPlane, cores.measured);
    const rows: BenchRow[] = [];
    const requests = costlyRequests(separate, await registerHostileAgent(separate));
    for (const costly of requests) rows.push(await measure(separate, costly));
    return rows;
  } finally {
    await separate.close();
    await redis.stop();
    await postgres.stop();
  }
}

async function measure(separate: Separate, { name, path, body }: CostlyRequest): Promise<BenchRow> {
  const text = body();
  const small = JSON.stringify({});
  const blocks: number[] = [];
  const baselines: number[] = [];
  let status = 0;
  for (let round = 0; round < rounds; round++) {
    baselines.push((await longestBlock(separate, path, small)).ms);
    const measured = await longestBlock(separate, path, text);
    blocks.push(measured.ms);
    status = measured.status;
  }
  const [ours, baseline] = [summarise(blocks), summarise(baselines)];
  return {
    row: `longest block: ${name} (${Math.round(text.length / 1024)} KiB, ${status})`,
    ours: ours.median,
    baseline: baseline.median,
    baselineName: 'an empty body',
    ratio: ours.median / baseline.median,
    unit: 'ms',
    spread: ours.spread,
  };
}

/**
 * Reads the metric before and after the request, because it reports the largest timer delay since
 * the last read.
 */
async function longestBlock(separate: Separate, path: string, body: string) {
  await lagMs(separate.origin);
  const { response } = await post(separate, path, body);
  if (response.status >= 500) throw new Error(`${path} answered ${response.status}`);
  return { ms: await lagMs(separate.origin), status: response.status };
}

async function post({ origin, ownerKey }: Separate, path: string, text: string) {
  const response = await fetch(`${origin}/api${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
    body: text,
  });
  return { response, body: await response.json() };
}

async function lagMs(origin: string): Promise<number> {
  const page = await (await fetch(`${origin}/metrics`)).text();
  const found = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(page)?.[1];
  if (found === undefined) throw new Error('the control plane does not report its event loop');
  return Number(found) * 1_000;
}
