import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadAuthority } from '../../proxy/tls/authority.ts';
import { systemClock } from '../../shared/clock.ts';
import { cores, startBaseline } from './baseline.ts';
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
      const barePort = bare.ready.port;
      rows.push(await compare(options, { secure, port, ours, barePort }));
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
  return { port: own.ready.port, stop: () => own.kill() };
}

interface Comparison {
  readonly secure: boolean;
  /** The upstream's. */
  readonly port: number;
  readonly ours: BenchSidecar;
  readonly barePort: number;
}

async function compare(
  options: ProxyBenchOptions,
  { secure, port, ours, barePort }: Comparison,
): Promise<BenchRow> {
  const { rounds = 5, name = 'ingress and forward', measureMs = 5_000, connections = 32 } = options;
  const call = { port, secure, body, answerIncludes: answer, connections, measureMs };
  const through = (proxyPort: number, path: string) =>
    load({ ...call, proxyPort, path, warmupMs: 1_000 });
  const rates: { ours: number[]; bare: number[] } = { ours: [], bare: [] };
  // Turn by turn, so that a machine that slows down slows both.
  for (let round = 0; round < rounds; round++) {
    rates.bare.push((await through(barePort, '/bare')).perSecond);
    const measured = await through(ours.port, benchPath);
    rates.ours.push(measured.perSecond);
    await ours.settle?.(measured);
  }
  const [our, bare] = [summarise(rates.ours), summarise(rates.bare)];
  return {
    row: `${name}, ${secure ? 'HTTPS intercepted' : 'plain HTTP'}, ${connections} connections`,
    ours: our.median,
    baseline: bare.median,
    baselineName: 'bare forward proxy on undici',
    ratio: our.median / bare.median,
    unit: 'requests/s',
    spread: our.spread,
  };
}
