import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { bundle, compile } from '../../scripts/bundle/bundle.ts';
import { fromBundle, fromSources, type Launch } from '../support/system/control-plane.ts';
import type { Separate } from '../support/system/separate.ts';
import { cores, pin, startBaseline } from './baseline.ts';
import { load, type Measured } from './load.ts';
import { residentMb } from './memory.ts';
import { tool } from './policy-rules.ts';
import { type ProxyPair, rowOf } from './proxy.ts';
import type { BenchRow } from './row.ts';
import { plainHttp } from './workload.ts';

/**
 * Called after each measurement of a suite, to count the calls that were made through the sidecar.
 */
type Told = (measured: Pick<Measured, 'answers' | 'perSecond'>) => Promise<void>;

interface Rig extends ProxyPair {
  readonly separate: Separate;
  readonly told: Told;
}

const ratePerSecond = 1_000;

/** Measures the latency that the sidecar adds to a call, at a constant rate far below the limit. */
export async function latencyRows({ upstream, ours, bare, told }: Rig): Promise<BenchRow[]> {
  const call = { ...plainHttp, port: upstream.http, connections: 16, ratePerSecond };
  const timed = { ...call, warmupMs: 2_000, measureMs: 10_000 };
  const direct = await load({ ...timed, proxyPort: bare.port, path: plainHttp.barePath });
  const through = await load({ ...timed, proxyPort: ours.port });
  await told(through);
  const row = `sidecar, latency at ${ratePerSecond} requests/s`;
  return [
    rowOf({ row: `${row}, p50`, unit: 'ms', ours: [through.p50], baseline: [direct.p50] }),
    rowOf({ row: `${row}, p99`, unit: 'ms', ours: [through.p99], baseline: [direct.p99] }),
  ];
}

const passports = 15_000;
/** Number of passports for the warm-up until the JIT compilers have finished. */
const warmUpPassports = 3_000;
const issuedAtOnce = 16;

/**
 * Measures calls that each present a passport of their own. The sidecar verifies the passport's
 * signature and claims its use in Redis.
 */
export async function presentedRow(rig: Rig, verifiedPerSecond: number): Promise<BenchRow> {
  const issued = await issue(rig.separate, warmUpPassports + passports);
  await present(rig, issued.slice(0, warmUpPassports));
  const { perSecond } = await present(rig, issued.slice(warmUpPassports));
  const row = 'sidecar, each call with a passport that the agent presents';
  const baselineName = 'Ed25519 verification, one core';
  const [mine, baseline] = [[perSecond], [verifiedPerSecond]];
  return rowOf({ row, unit: 'requests/s', ours: mine, baseline, baselineName });
}

async function present(
  { separate, upstream, ours, told }: Rig,
  issued: readonly string[],
): Promise<Measured> {
  const passportsFile = join(separate.dataDir, 'passports');
  fs.writeFileSync(passportsFile, issued.join('\n'), { mode: 0o600 });
  const call = { ...plainHttp, port: upstream.http, connections: 32, warmupMs: 0, measureMs: 0 };
  const measured = await load({ ...call, proxyPort: ours.port, passportsFile });
  if (measured.answers !== issued.length)
    throw new Error(`${measured.answers} of ${issued.length} passports were good for a call`);
  await told(measured);
  return measured;
}

async function issue({ api, agentId }: Separate, count: number): Promise<string[]> {
  const body = {
    tenant_id: 'default',
    agent_id: agentId,
    user_id: 'user_1',
    goal: 'bench',
    allowed_tools: [tool],
    risk_tier: 'low',
    policy_id: 'bench',
    audience: 'gateway://agents',
    ttl_seconds: 3600,
  };
  const issued: string[] = [];
  const issueOn = async () => {
    while (issued.length < count) {
      const answer = await api('POST', '/v1/passports/issue', body);
      if (answer.status !== 200) throw new Error(`refused: ${JSON.stringify(answer.body)}`);
      issued.push(String(answer.body.passport));
    }
  };
  await Promise.all(Array.from({ length: issuedAtOnce }, issueOn));
  return issued.slice(0, count);
}

const idleMs = 2_000;

/**
 * Measures a newly started sidecar: the time until it serves, and its memory when idle and under
 * load.
 */
export async function startRows({ separate, upstream, told }: Rig): Promise<BenchRow[]> {
  const started = await restarted(separate);
  const bareStartedAt = performance.now();
  const bare = await startBaseline<{ port: number }>('forward-proxy.ts', { on: cores.measured });
  const bareReadyMs = performance.now() - bareStartedAt;
  await delay(idleMs);
  const bareIdle = residentMb(bare.pid);
  const call = { ...plainHttp, port: upstream.http, connections: 256, warmupMs: 1_000 };
  const timed = { ...call, measureMs: 5_000 };
  await load({ ...timed, proxyPort: bare.ready.port, path: plainHttp.barePath });
  const proxyPort = Number(new URL(separate.proxyUrl).port);
  await told(await load({ ...timed, proxyPort }));
  const busy = [residentMb(separate.sidecar.pid).peak, residentMb(bare.pid).peak];
  await bare.kill();
  const rows = [
    ['sidecar, from start to ready', 'ms', started.readyMs, bareReadyMs],
    ['sidecar, resident memory, idle', 'MB', started.idle.now, bareIdle.now],
    ['sidecar, memory of its own, idle', 'MB', started.idle.anonymous, bareIdle.anonymous],
    ['sidecar, resident memory at most, 256 connections', 'MB', ...busy],
  ] as const;
  return rows.map(([row, unit, ours = 0, baseline = 0]) =>
    rowOf({ row, unit, ours: [ours], baseline: [baseline] }),
  );
}

const starts = 5;

/** Compares the sidecar of the container image with the sidecar that runs from its sources. */
export async function bundledRows({ separate }: Pick<Rig, 'separate'>): Promise<BenchRow[]> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-bundle-'));
  try {
    await bundle(folder);
    compile({ folder, node: process.execPath });
    const [sources, bundled]: [Started[], Started[]] = [[], []];
    for (let round = 0; round < starts; round += 1) {
      sources.push(await restarted(separate));
      bundled.push(await restarted(separate, fromBundle(folder)));
    }
    const columns = [
      ['from start to ready', 'ms', ({ readyMs }: Started) => readyMs],
      ['resident memory, idle', 'MB', ({ idle }: Started) => idle.now],
      ['memory of its own, idle', 'MB', ({ idle }: Started) => idle.anonymous],
    ] as const;
    return columns.map(([row, unit, of]) =>
      rowOf({
        row: `bundled sidecar, ${row}`,
        unit,
        ours: bundled.map(of),
        baseline: sources.map(of),
        baselineName: 'from its sources',
      }),
    );
  } finally {
    await restarted(separate);
    fs.rmSync(folder, { recursive: true });
  }
}

interface Started {
  readonly readyMs: number;
  readonly idle: ReturnType<typeof residentMb>;
}

/** Restarts the sidecar. Measures the time until it is ready, and its memory when it is idle. */
async function restarted(separate: Separate, launch: Launch = fromSources): Promise<Started> {
  await separate.sidecar.stop();
  const startedAt = performance.now();
  await separate.restartSidecar({ ready: true, launch });
  const readyMs = performance.now() - startedAt;
  pin(separate.sidecar, cores.measured);
  await delay(idleMs);
  return { readyMs, idle: residentMb(separate.sidecar.pid) };
}

const downloadBytes = 1024 ** 3;
export const downloadPath = `/ours/download/${downloadBytes}`;

/** Downloads one large file through interception, and measures the memory that this needs. */
export async function downloadRows({ upstream, bare, separate, told }: Rig): Promise<BenchRow[]> {
  const download = async (proxyPort: number, path: string) => {
    const args = [String(proxyPort), String(upstream.opaque), path];
    const { ready } = await startBaseline<{ ok: boolean; bytes: number; seconds: number }>(
      'download-client.ts',
      { args, on: cores.others },
    );
    if (!ready.ok || ready.bytes !== downloadBytes)
      throw new Error(`${ready.bytes} of ${downloadBytes} bytes came, well: ${ready.ok}`);
    return ready.bytes / 1024 ** 2 / ready.seconds;
  };
  const proxyPort = Number(new URL(separate.proxyUrl).port);
  const before = [residentMb(separate.sidecar.pid).now, residentMb(bare.pid).now];
  const baseline = [await download(bare.port, `/download/${downloadBytes}`)];
  const ours = [await download(proxyPort, downloadPath)];
  await told({ answers: 1, perSecond: 0 });
  const after = [residentMb(separate.sidecar.pid).now, residentMb(bare.pid).now];
  const grown = after.map((mb, index) => mb - (before[index] ?? 0));
  const row = 'sidecar, 1 GiB downloaded through interception';
  return [
    rowOf({ row, unit: 'MB/s', ours, baseline }),
    rowOf({
      row: `${row}: resident memory grows by`,
      unit: 'MB',
      ours: grown.slice(0, 1),
      baseline: grown.slice(1),
    }),
  ];
}
