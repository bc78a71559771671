import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { cores, startBaseline } from './baseline.ts';
import { cpuSeconds } from './cpu-time.ts';
import { load, type Measured } from './load.ts';
import { type Peer, startPeers } from './peers.ts';
import { type BenchRow, summarise } from './row.ts';
import { intercepted, plainHttp, type Workload } from './workload.ts';

/**
 * The upstream to which the load is sent: its ports, and the authority of its certificates in PEM
 * format.
 */
export interface BenchUpstream {
  readonly http: number;
  readonly https: number;
  /** A TLS port without a binding. */
  readonly opaque: number;
  readonly ca: string;
}

/** A running sidecar that trusts the upstream and allows the load. */
export interface BenchSidecar {
  readonly pid: number;
  readonly port: number;
  /** Called after each measurement. */
  settle?(measured: Pick<Measured, 'answers' | 'perSecond'>): Promise<void>;
  stop(): Promise<void>;
}

interface ProxyBenchOptions {
  /** Starts the product; by default, only its ingress and forwarder. */
  readonly startOurs?: (upstream: BenchUpstream) => Promise<BenchSidecar>;
  readonly name?: string;
  readonly rounds?: number;
  readonly measureMs?: number;
  readonly connections?: number;
  readonly workloads?: readonly Workload[];
  /** Measures other proxies as well. */
  readonly withPeers?: boolean;
  /** Called with the sidecar and the bare proxy before they end. */
  readonly more?: (pair: ProxyPair) => Promise<BenchRow[]>;
}

/** The sidecar and its baseline. */
export interface ProxyPair {
  readonly upstream: BenchUpstream;
  readonly ours: BenchSidecar;
  readonly bare: Pick<BenchSidecar, 'pid' | 'port'>;
}

/**
 * Measures requests per second through the sidecar, compared with a bare forward proxy and others.
 */
export async function benchProxy(options: ProxyBenchOptions = {}): Promise<BenchRow[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  const authority = loadAuthority({ dataDir, clock: systemClock });
  const { cert, key } = authority.leafFor('127.0.0.1');
  const ca = authority.certPem;
  const env = { BENCH_CERT: cert, BENCH_KEY: key, BENCH_CA: ca, BENCH_DATA: dataDir };
  const stops: (() => Promise<void>)[] = [];
  try {
    const upstream = await startBaseline<Omit<BenchUpstream, 'ca'>>('load-upstream.ts', {
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
    const pair = {
      upstream: { ...upstream.ready, ca },
      ours,
      bare: { pid: bare.pid, port: bare.ready.port },
    };
    const peers = options.withPeers === true ? await startPeers({ folder: dataDir, ca }) : [];
    stops.push(async () => {
      for (const peer of peers) await peer.stop();
    });
    const rows: BenchRow[] = [];
    for (const workload of options.workloads ?? [plainHttp, intercepted])
      rows.push(...(await compare(options, { ...pair, workload, peers })));
    return [...rows, ...((await options.more?.(pair)) ?? [])];
  } catch (error) {
    // An error during shutdown must not hide this error.
    console.error(error);
    throw error;
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

interface Comparison extends ProxyPair {
  readonly workload: Workload;
  readonly peers: readonly Peer[];
}

/**
 * Results of the rounds of one proxy: requests a second, and microseconds of processor time per
 * request.
 */
interface Rounds {
  readonly perSecond: number[];
  readonly cpuMicros: number[];
}

/** Number of rounds for other proxies, which are much slower. */
const peerRounds = 2;

async function compare(
  options: ProxyBenchOptions,
  { workload, upstream, ours, bare: baseline, peers: all }: Comparison,
): Promise<BenchRow[]> {
  const { rounds = 5, name = 'ingress and forward', measureMs = 5_000, connections = 32 } = options;
  const { secure, path, barePath, withPeers } = workload;
  const port = secure ? upstream.https : upstream.http;
  const call = { ...workload, port, connections, measureMs };
  const through = async (proxy: ProxyPair['bare'], asked: string, into: Rounds) => {
    const before = cpuSeconds(proxy.pid);
    const measured = await load({ ...call, proxyPort: proxy.port, path: asked, warmupMs: 1_000 });
    const after = cpuSeconds(proxy.pid);
    into.perSecond.push(measured.perSecond);
    if (before !== undefined && after !== undefined)
      into.cpuMicros.push(((after - before) / measured.answers) * 1e6);
    return measured;
  };
  const [our, bare] = [newRounds(), newRounds()];
  const carries = secure ? 'intercepted' : 'plain';
  const peers = all
    .filter((peer) => withPeers && peer.carries[carries])
    .map((peer) => ({ peer, measured: newRounds() }));
  // Warms up until the JIT compilers have finished; the sidecar has more code to compile.
  const warmUp = (proxyPort: number, asked: string) =>
    load({ ...call, proxyPort, path: asked, warmupMs: 0 });
  await warmUp(baseline.port, barePath);
  const warm = await warmUp(ours.port, path);
  await ours.settle?.(warm);
  // Runs the proxies alternately, so that a slower machine affects both.
  for (let round = 0; round < rounds; round++) {
    await through(baseline, barePath, bare);
    const measured = await through(ours, path, our);
    await ours.settle?.(measured);
    if (round >= peerRounds) continue;
    for (const { peer, measured: into } of peers) {
      // If a peer answers incorrectly under load, only that round is dropped.
      await through(peer, barePath, into).catch((error: Error) =>
        console.error(`${peer.name}: ${error.message.slice(0, 100)}`),
      );
    }
  }
  const row = `${name}, ${workload.name}, ${connections} connections`;
  const unit = 'requests/s';
  const rows = [rowOf({ row, unit, ours: our.perSecond, baseline: bare.perSecond })];
  for (const { peer, measured } of peers.filter((one) => one.measured.perSecond.length > 0)) {
    const others = { baseline: measured.perSecond, baselineName: peer.name };
    rows.push(rowOf({ row, unit, ours: our.perSecond, ...others }));
  }
  if (our.cpuMicros.length === 0) return rows;
  const cpu = { row: `${row}: processor time`, unit: 'µs/request' };
  return [...rows, rowOf({ ...cpu, ours: our.cpuMicros, baseline: bare.cpuMicros })];
}

function newRounds(): Rounds {
  return { perSecond: [], cpuMicros: [] };
}

/** Returns a row of medians. The baseline is the bare proxy unless `baselineName` names another. */
export function rowOf({
  row,
  unit,
  ours,
  baseline,
  baselineName = 'bare forward proxy on undici',
}: {
  readonly row: string;
  readonly unit: string;
  readonly ours: readonly number[];
  readonly baseline: readonly number[];
  readonly baselineName?: string;
}): BenchRow {
  const { median, spread } = summarise(ours);
  const base = summarise(baseline).median;
  return { row, ours: median, baseline: base, baselineName, ratio: median / base, unit, spread };
}
