import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/clock.ts';
import { type BenchProcess, median, spreadOf, startProcess } from './process.ts';
import type { BenchRow } from './row.ts';

interface ProxyBenchOptions {
  /** Port of a sidecar that is up, trusts `BENCH_CA` and lets the load through. Default: ingress and forward alone. */
  readonly startOurs?: (
    upstreamCa: string,
  ) => Promise<{ readonly port: number; stop(): Promise<void> }>;
  readonly name?: string;
  readonly rounds?: number;
  readonly measureMs?: number;
  readonly connections?: number;
}

interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly wrong: number;
}

const hasTaskset = spawnSync('taskset', ['--version']).status === 0;
// The proxy has a core of its own; load and upstream share what is left.
const proxyCore = hasTaskset && availableParallelism() > 1 ? '0' : undefined;
const otherCores = proxyCore === undefined ? undefined : `1-${availableParallelism() - 1}`;

/** Requests a second through the sidecar, plain and intercepted, beside a bare forward proxy. */
export async function benchProxy(options: ProxyBenchOptions = {}): Promise<BenchRow[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-bench-'));
  const authority = loadAuthority({ dataDir, clock: systemClock });
  const { cert, key } = authority.leafFor('127.0.0.1');
  const env = {
    BENCH_CERT: cert,
    BENCH_KEY: key,
    BENCH_CA: authority.certPem,
    BENCH_DATA: dataDir,
  };
  const started: { stop(): Promise<void> }[] = [];
  try {
    const upstream = await startProcess<{ http: number; https: number }>({
      program: 'load-upstream.ts',
      env,
      ...on(otherCores),
    });
    started.push(upstream);
    const bare = await startProcess<{ port: number }>({
      program: 'forward-proxy.ts',
      env,
      ...on(proxyCore),
    });
    started.push(bare);
    const ours = await startOurs(options, env);
    started.push(ours);
    const rows: BenchRow[] = [];
    for (const secure of [false, true]) {
      const upstreamPort = secure ? upstream.ready.https : upstream.ready.http;
      rows.push(
        await compare({
          options,
          secure,
          upstreamPort,
          oursPort: ours.port,
          barePort: bare.ready.port,
        }),
      );
    }
    return rows;
  } finally {
    for (const { stop } of started.reverse()) await stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

function on(cores: string | undefined): { cores?: string } {
  return cores === undefined ? {} : { cores };
}

async function startOurs(options: ProxyBenchOptions, env: Record<string, string>) {
  if (options.startOurs !== undefined) return options.startOurs(env.BENCH_CA ?? '');
  const own: BenchProcess<{ port: number }> = await startProcess({
    program: 'bare-sidecar.ts',
    env,
    ...on(proxyCore),
  });
  return { port: own.ready.port, stop: own.stop };
}

interface Comparison {
  readonly options: ProxyBenchOptions;
  readonly secure: boolean;
  readonly upstreamPort: number;
  readonly oursPort: number;
  readonly barePort: number;
}

async function compare({
  options,
  secure,
  upstreamPort,
  oursPort,
  barePort,
}: Comparison): Promise<BenchRow> {
  const { rounds = 5, name = 'ingress and forward' } = options;
  const ours: number[] = [];
  const bare: number[] = [];
  // Turn by turn, so that a machine that slows down slows both.
  for (let round = 0; round < rounds; round++) {
    bare.push(await measure(options, { secure, upstreamPort, proxyPort: barePort }));
    ours.push(await measure(options, { secure, upstreamPort, proxyPort: oursPort }));
  }
  const [oursMedian, bareMedian] = [median(ours), median(bare)];
  return {
    row: `${name}, ${secure ? 'HTTPS intercepted' : 'plain HTTP'}, ${options.connections ?? 32} connections`,
    ours: oursMedian,
    baseline: bareMedian,
    baselineName: 'bare forward proxy on undici',
    ratio: oursMedian / bareMedian,
    unit: 'requests/s',
    spread: spreadOf(ours),
  };
}

async function measure(
  { measureMs = 5_000, connections = 32 }: ProxyBenchOptions,
  where: { secure: boolean; upstreamPort: number; proxyPort: number },
): Promise<number> {
  const load = { ...where, connections, warmupMs: 1_000, measureMs, path: '/bench' };
  const run = await startProcess<Measured>({
    program: 'load.ts',
    args: [JSON.stringify(load)],
    ...on(otherCores),
  });
  if (run.ready.wrong > 0) throw new Error(`${run.ready.wrong} answers were wrong.`);
  return run.ready.perSecond;
}

if (import.meta.main) {
  const quick = process.argv.includes('--quick');
  const rows = await benchProxy(quick ? { rounds: 3, measureMs: 2_000 } : {});
  for (const { row, ours, baseline, ratio, spread } of rows) {
    console.log(
      `${row}: ${ours.toFixed(0)} against ${baseline.toFixed(0)}, ratio ${ratio.toFixed(2)}, spread ${(spread * 100).toFixed(0)} %`,
    );
  }
}
