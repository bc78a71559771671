import fs from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { ProxyAgent, request } from 'undici';
import { startPostgres } from '../support/programs/postgres.ts';
import { until } from '../support/programs/processes.ts';
import { startRedis } from '../support/programs/redis.ts';
import { type Separate, startSeparate } from '../support/system/separate.ts';
import { cores, pin } from './baseline.ts';
import { benchLeaf } from './leaf.ts';
import { assertVerifies } from './ledger-check.ts';
import type { Measured } from './load.ts';
import { benchPolicy, otherPolicy, tool } from './policy-rules.ts';
import { type BenchSidecar, type BenchUpstream, benchProxy } from './proxy.ts';
import { type BenchRow, summarise } from './row.ts';
import {
  bundledRows,
  downloadPath,
  downloadRows,
  latencyRows,
  presentedRow,
  startRows,
} from './sidecar-rows.ts';
import { verificationsPerSecond } from './verification.ts';
import { benchPath, intercepted, mcpCalls, mcpPath, plainHttp } from './workload.ts';

const lowestPriority = 19;
const drainMs = 180_000;

/** The measured calls, and how fast their evidence reached the ledger. */
type TalliedCalls = Pick<Measured, 'answers' | 'perSecond'>;

interface Tally {
  calls: number;
  readonly callsPerSecond: number[];
  readonly sealedPerSecond: number[];
}

/**
 * Measures the sidecar as it is deployed: a process with every feature (200 rules, the lease, the
 * spool and its upload, metrics, the log). Afterwards the ledger must contain one decision and one
 * outcome for each call that the upstream received, and must pass verification.
 */
export async function benchSidecar(): Promise<BenchRow[]> {
  const tally: Tally = { calls: 0, callsPerSecond: [], sealedPerSecond: [] };
  const verified = verificationsPerSecond();
  let separate: Separate | undefined;
  const rows = await benchProxy({
    name: 'sidecar, everything on',
    rounds: 3,
    workloads: [plainHttp, intercepted, mcpCalls],
    withPeers: true,
    startOurs: async (upstream) => {
      const running = await startOurs(upstream, tally);
      separate = running.separate;
      return running;
    },
    async more(pair) {
      if (separate === undefined) throw new TypeError('the sidecar did not start');
      const told = async (measured: TalliedCalls) => pair.ours.settle?.(measured);
      const rig = { ...pair, separate, told };
      return [
        ...(await latencyRows(rig)),
        await presentedRow(rig, verified),
        ...(await startRows(rig)),
        ...(await bundledRows(rig)),
        ...(await downloadRows(rig)),
        benchLeaf(),
      ];
    },
  });
  return [...rows, uploadRow(tally)];
}

async function startOurs(
  upstream: BenchUpstream,
  tally: Tally,
): Promise<BenchSidecar & { readonly separate: Separate }> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-bench-'));
  const caFile = join(folder, 'upstream-ca.pem');
  fs.writeFileSync(caFile, upstream.ca);
  const postgres = await startPostgres({ durable: true });
  // Lets sealing use only the remaining processor time, because the sidecar is measured.
  setPriority(postgres.pid, lowestPriority);
  const redis = await startRedis();
  const separate = await startSeparate({
    databaseUrl: postgres.url,
    redisUrl: redis.url,
    sidecarEnv: { NODE_EXTRA_CA_CERTS: caFile },
    isLogFiled: true,
  });
  setPriority(separate.controlPlane.pid, lowestPriority);
  pin(separate.controlPlane, cores.others);
  pin({ pid: postgres.pid }, cores.others);
  pin(separate.sidecar, cores.measured);
  await bind(separate, upstream);
  const ledger = new pg.Client({ connectionString: postgres.url });
  await ledger.connect();
  return {
    separate,
    pid: separate.sidecar.pid,
    port: Number(new URL(separate.proxyUrl).port),
    async settle({ answers, perSecond }) {
      tally.calls += answers;
      const sealedPerSecond = await drained(ledger, separate);
      // Ignores short measurements: the sealing rate of a few calls is not meaningful.
      if (answers < 10_000) return;
      tally.callsPerSecond.push(perSecond);
      tally.sealedPerSecond.push(sealedPerSecond);
    },
    async stop() {
      try {
        await assertAllSealed(ledger, upstream, tally);
        await assertVerifies(separate);
      } finally {
        await ledger.end();
        await separate.close();
        await redis.stop();
        await postgres.stop();
        await rm(folder, { recursive: true });
      }
    },
  };
}

/** Binds both ports of the upstream to one tool, which the last rule allows. */
async function bind({ api, proxyUrl }: Separate, { http, https }: BenchUpstream): Promise<void> {
  for (const [name, port] of [['plain', http] as const, ['tls', https] as const]) {
    const { status, body } = await api('PUT', `/v1/runtime/bindings/${name}`, {
      protocol: 'http',
      host: `127.0.0.1:${port}`,
      method: 'POST',
      path: benchPath,
      body: 'json',
      tool,
      resource: 'account:main',
    });
    if (status !== 200) throw new Error(`the binding was refused: ${JSON.stringify(body)}`);
  }
  const server = { protocol: 'mcp', host: `127.0.0.1:${http}`, path: mcpPath };
  const bound = await api('PUT', '/v1/runtime/bindings/bench', server);
  if (bound.status !== 200) throw new Error(`refused: ${JSON.stringify(bound.body)}`);
  for (const rules_json of [otherPolicy, benchPolicy]) {
    const policy = { name: rules_json.id, publish: true, rules_json };
    const { status, body } = await api('POST', '/v1/policies', policy);
    if (status !== 201) throw new Error(`the policy was refused: ${JSON.stringify(body)}`);
  }
  const agent = new ProxyAgent({ uri: proxyUrl, proxyTunnel: false });
  const isAllowed = async () => {
    const response = await request(`http://127.0.0.1:${http}${benchPath}`, {
      dispatcher: agent,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"amount":1}',
    });
    await response.body.dump();
    return response.statusCode === 200;
  };
  await until('the policy is in force', isAllowed);
  await agent.close();
}

/**
 * Waits until the sidecar's whole spool is in the ledger. Returns the records that were sealed per
 * second.
 */
async function drained(ledger: pg.Client, { adminUrl }: Separate): Promise<number> {
  const before = await sealedRecords(ledger);
  const startedAt = performance.now();
  const isDrained = async () => {
    // Polls rarely, because polling also costs the sidecar processor time.
    await delay(200);
    return (await spoolDepth(adminUrl)) === 0;
  };
  await until('the spool is drained', isDrained, drainMs);
  const seconds = (performance.now() - startedAt) / 1000;
  return ((await sealedRecords(ledger)) - before) / seconds;
}

async function spoolDepth(adminUrl: string): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const depth = /^sallyport_spool_records (\d+)$/m.exec(metrics)?.[1];
  if (depth === undefined) throw new Error('the sidecar tells no depth of its spool');
  return Number(depth);
}

async function sealedRecords(ledger: pg.Client): Promise<number> {
  const { rows } = await ledger.query<{ position: string }>(
    'SELECT coalesce(sum(position), 0) AS position FROM evidence_head',
  );
  return Number(rows[0]?.position);
}

/**
 * Verifies that the ledger has one allowing decision and one outcome for each call that reached the
 * upstream.
 */
async function assertAllSealed(
  ledger: pg.Client,
  upstream: BenchUpstream,
  { calls }: Tally,
): Promise<void> {
  const counted = await fetch(`http://127.0.0.1:${upstream.http}/count`);
  const posted = (await counted.json()) as Record<string, number>;
  const arrived = (posted[benchPath] ?? 0) + (posted[mcpPath] ?? 0) + (posted[downloadPath] ?? 0);
  const { rows } = await ledger.query<Record<'decisions' | 'outcomes' | 'pairs', number>>(`
    WITH decision AS (
      SELECT split_part(event_id, '/', 2) AS event_id FROM evidence_row
       WHERE type = 'decision' AND decision = 'allow'
    ), outcome AS (
      SELECT canonical::json #>> '{data,decision_event_id}' AS of FROM evidence_row
       WHERE type = 'execution.result'
    )
    SELECT (SELECT count(*)::int FROM decision) AS decisions,
           (SELECT count(*)::int FROM outcome) AS outcomes,
           (SELECT count(DISTINCT event_id)::int FROM decision JOIN outcome ON of = event_id) AS pairs`);
  const [found] = rows;
  const isWhole =
    found?.decisions === arrived && found.outcomes === arrived && found.pairs === arrived;
  if (isWhole && arrived >= calls) return;
  throw new Error(`${arrived} calls arrived, ${calls} were answered: ${JSON.stringify(found)}`);
}

function uploadRow({ callsPerSecond, sealedPerSecond }: Tally): BenchRow {
  const sealed = summarise(sealedPerSecond);
  const made = 2 * summarise(callsPerSecond).median;
  return {
    row: 'sidecar, evidence sealed while it drains its spool',
    ours: sealed.median,
    baseline: made,
    baselineName: 'made by it under full load',
    ratio: sealed.median / made,
    unit: 'records/s',
    spread: sealed.spread,
  };
}
