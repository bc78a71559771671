import { cores, startBaseline } from './baseline.ts';

/** The request to repeat, and how its response is verified. */
export interface Load {
  /** Port of the server on 127.0.0.1. */
  readonly port: number;
  /** Port of a forward proxy to use instead of a direct connection. */
  readonly proxyPort?: number | undefined;
  /** Uses TLS to the server; through a proxy, the TLS connection is inside CONNECT. */
  readonly secure?: boolean;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
  /** Text that every response with status 200 must contain. */
  readonly answerIncludes: string;
  readonly connections: number;
  /**
   * Constant rate of requests per second, in total over all connections; default: as fast as
   * possible.
   */
  readonly ratePerSecond?: number;
  /**
   * A file that contains a value of the header Action-Passport for each request. The load ends with
   * the last value.
   */
  readonly passportsFile?: string;
  readonly warmupMs: number;
  readonly measureMs: number;
}

export interface Measured {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Total responses, including those of the warm-up. */
  readonly answers: number;
}

/**
 * Sends POST requests from a separate process, one at a time on each connection, and verifies every
 * response. Ends when the last request is answered. Throws on a wrong response.
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
