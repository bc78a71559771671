import { cores, startBaseline } from './baseline.ts';

/** What is asked again and again, and how the answer is known to be right. */
export interface Load {
  /** Port of the server on 127.0.0.1. */
  readonly port: number;
  /** Through this forward proxy, rather than straight. */
  readonly proxyPort?: number | undefined;
  /** TLS to the server; through a proxy, inside CONNECT. */
  readonly secure?: boolean;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  /** What every answer, a 200, must hold. */
  readonly answerIncludes: string;
  readonly connections: number;
  /** Requests a second over all connections, evenly; without it as fast as it goes. */
  readonly ratePerSecond?: number;
  /** A file of values for the header Action-Passport, a line for each request; the load ends with them. */
  readonly passportsFile?: string;
  readonly warmupMs: number;
  readonly measureMs: number;
}

export interface Measured {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Answers in all, those of the warm-up among them. */
  readonly answers: number;
}

/**
 * POSTs from a process of its own, one request at a time on each connection; every answer is
 * checked. Ends when the last request is answered. Throws when one is not what it must be.
 */
export async function load(options: Load): Promise<Measured> {
  const { ready, exited } = await startBaseline<Measured & { wrong: number; example: string }>(
    'load-client.ts',
    { args: [JSON.stringify(options)], on: cores.others },
  );
  await exited();
  if (ready.wrong > 0) throw new Error(`${ready.wrong} answers were wrong: ${ready.example}`);
  return ready;
}
