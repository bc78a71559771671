import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/clock.ts';
import { cores, startBaseline } from './baseline.ts';
import { cpuSeconds } from './cpu-time.ts';
import { load, type Measured } from './load.ts';
import { type BenchRow, summarise } from './row.ts';

/** The upstream of the load: its ports, and its certificates' authority, PEM. */
export interface BenchUpstream {
  readonly http: number;
  readonly https: number;
  readonly ca: string;
}

/** A sidecar that is up, trusts the upstream and lets the load through. */
export interface BenchSidecar {
  readonly pid: number;
  readonly port: number;
  /** Called after each measurement. */
  settle?(measured: Measured): Promise<void>;
  stop(): Promise<void>;
}

interface ProxyBenchOptions {
  /** Default: ingress and forward alone. */
  readonly startOurs?: (upstream: BenchUpstream) => Promise<BenchSidecar>;
  readonly name?: string;
  readonly rounds?: number;
  readonly measureMs?: number;
  readonly connections?: number;
}

/** What the load posts, and what the upstream answers. */
const body = JSON.stringify({ amount: 5, text: 'x'.repeat(1_000) });
const answer = JSON.stringify({ ok: true, text: 'x'.repeat(1_000) });
/** What is asked of the upstream through ours; it counts what arrives. */
export const benchPath = '/bench';

/** Requests a second through the sidecar, plain and intercepted, beside a bare forward proxy. */
export async function benchProxy(options: ProxyBenchOptions = {}): Promise<BenchRow[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  const authority = loadAuthority({ dataDir, clock: systemClock });
  const { cert, key } = authority.leafFor('127.0.0.1');
  const ca = authority.certPem;
  const env = { BENCH_CERT: cert, BENCH_KEY: key, BENCH_CA: ca, BENCH_DATA: dataDir };
  const stops: (() => Promise<void>)[] = [];
  try {
    const upstream = await startBaseline<{ http: number; https: number }>('load-upstream.ts', {
      env,
      on: cores.others,
    });
    stops.push(() => upstream.kill());
    const bare = await startBaseline<{ port: number }>('forward-proxy.ts', {
      env,
      on: cores.measured,
    });
    stops.push(() => bare.kill());
    const ours = await startOurs(options, { ...upstream.ready, ca }, env);
    stops.push(() => ours.stop());
    const rows: BenchRow[] = [];
    for (const secure of [false, true]) {
      const port = secure ? upstream.ready.https : upstream.ready.http;
      const baseline = { pid: bare.pid, port: bare.ready.port };
      rows.push(...(await compare(options, { secure, port, ours, baseline })));
    }
    return rows;
  } finally {
    for (const stop of stops.reverse()) await stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function startOurs(
  options: ProxyBenchOptions,
  upstream: BenchUpstream,
  env: Readonly<Record<string, string>>,
): Promise<BenchSidecar> {
  if (options.startOurs !== undefined) return options.startOurs(upstream);
  const own = await startBaseline<{ port: number }>('bare-sidecar.ts', { env, on: cores.measured });
  return { pid: own.pid, port: own.ready.port, stop: () => own.kill() };
}

interface Comparison {
  readonly secure: boolean;
  /** The upstream's. */
  readonly port: number;
  readonly ours: BenchSidecar;
  readonly baseline: Pick<BenchSidecar, 'pid' | 'port'>;
}

/** What the rounds of one proxy gave: requests a second, and microseconds of processor time for each. */
interface Rounds {
  readonly perSecond: number[];
  readonly cpuMicros: number[];
}

async function compare(
  options: ProxyBenchOptions,
  { secure, port, ours, baseline }: Comparison,
): Promise<BenchRow[]> {
  const { rounds = 5, name = 'ingress and forward', measureMs = 5_000, connections = 32 } = options;
  const call = { port, secure, body, answerIncludes: answer, connections, measureMs };
  const through = async (proxy: Comparison['baseline'], path: string, into: Rounds) => {
    const before = cpuSeconds(proxy.pid);
    const measured = await load({ ...call, proxyPort: proxy.port, path, warmupMs: 1_000 });
    const after = cpuSeconds(proxy.pid);
    into.perSecond.push(measured.perSecond);
    if (before !== undefined && after !== undefined)
      into.cpuMicros.push(((after - before) / measured.answers) * 1e6);
    return measured;
  };
  const our: Rounds = { perSecond: [], cpuMicros: [] };
  const bare: Rounds = { perSecond: [], cpuMicros: [] };
  // Until the compilers have done their work; ours has more of it.
  const warmUp = (proxyPort: number, path: string) =>
    load({ ...call, proxyPort, path, warmupMs: 0 });
  await warmUp(baseline.port, '/bare');
  const warm = await warmUp(ours.port, benchPath);
  await ours.settle?.(warm);
  // Turn by turn, so that a machine that slows down slows both.
  for (let round = 0; round < rounds; round++) {
    await through(baseline, '/bare', bare);
    const measured = await through(ours, benchPath, our);
    await ours.settle?.(measured);
  }
  const row = `${name}, ${secure ? 'HTTPS intercepted' : 'plain HTTP'}, ${connections} connections`;
  const rates = rowOf(row, 'requests/s', our.perSecond, bare.perSecond);
  if (our.cpuMicros.length === 0) return [rates];
  return [rates, rowOf(`${row}: processor time`, 'µs/request', our.cpuMicros, bare.cpuMicros)];
}

function rowOf(
  row: string,
  unit: string,
  ours: readonly number[],
  bare: readonly number[],
): BenchRow {
  const { median, spread } = summarise(ours);
  const baseline = summarise(bare).median;
  const ratio = median / baseline;
  const baselineName = 'bare forward proxy on undici';
  return { row, ours: median, baseline, baselineName, ratio, unit, spread };
}
