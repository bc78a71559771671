import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type Server as NetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Exchange } from '../../../proxy/call/exchange.ts';
import { createIngress, type Ingress } from '../../../proxy/ingress/ingress.ts';
import type { IngressOptions } from '../../../proxy/ingress/options.ts';
import type { Tunnel } from '../../../proxy/ingress/tunnel.ts';
import { type Authority, loadAuthority } from '../../../proxy/tls/authority.ts';
import { createForward, type ForwardTimeouts } from '../../../proxy/upstream/forward.ts';
import type { Forward, Outcome } from '../../../proxy/upstream/forwarding.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { type ErrorCode, errorKinds } from '../../../shared/errors/error-kinds.ts';
import { createGuard, type Guard } from '../../../shared/upstream/address-guard.ts';
import { outboundHeaders } from '../../../shared/upstream/headers.ts';
import type { Outgoing } from '../../../shared/upstream/outgoing.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

/** Stops everything that a test started, in reverse order. */
export class Cleanup {
  readonly #steps: (() => unknown)[] = [];

  add(step: () => unknown): void {
    this.#steps.push(step);
  }

  async run(): Promise<void> {
    for (const step of this.#steps.splice(0).reverse()) await step();
  }
}

/** Creates a folder that is removed at the end. */
export function temporaryFolder(cleanup: Cleanup): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-'));
  cleanup.add(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Creates a certificate authority for upstreams, as a company might run one. */
export function testAuthority(cleanup: Cleanup): Authority {
  return loadAuthority({ dataDir: temporaryFolder(cleanup), clock: systemClock });
}

/** Listens on loopback and returns the port. All connections are destroyed at the end. */
export async function listening(server: NetServer, cleanup: Cleanup): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanup.add(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

export async function httpUpstream(cleanup: Cleanup, listener: RequestListener): Promise<number> {
  const server: Server = createServer({ keepAliveTimeout: 5_000 }, listener);
  return listening(server, cleanup);
}

export async function httpsUpstream(
  cleanup: Cleanup,
  authority: Authority,
  listener: RequestListener,
  host = '127.0.0.1',
): Promise<number> {
  const { key, cert } = authority.leafFor(host);
  return listening(createTlsServer({ key, cert }, listener), cleanup);
}

export interface TestProxy {
  readonly ingress: Ingress;
  readonly url: string;
  readonly port: number;
  readonly authority: Authority;
  readonly forward: Forward;
  readonly guard: Guard;
  readonly exchanges: Exchange[];
  readonly outcomes: Outcome[];
  readonly tunnels: Tunnel[];
  readonly refusals: ErrorCode[];
}

interface TestProxyOptions extends Partial<IngressOptions> {
  readonly ca?: readonly string[];
  readonly timeouts?: Partial<ForwardTimeouts>;
  readonly filter?: () => ResponseFilter | undefined;
  readonly rewrite?: (outgoing: Outgoing) => Outgoing;
  readonly allowPrivate?: readonly string[];
  readonly guard?: Guard;
}

/**
 * Returns the request as received. The sidecar sends it in this form if it need not rebuild the
 * call.
 */
export function asItCame(exchange: Exchange): Outgoing {
  return {
    scheme: exchange.scheme,
    host: exchange.host,
    port: exchange.port,
    method: exchange.method,
    path: exchange.target,
    headers: outboundHeaders(exchange.req.rawHeaders),
    body: exchange.req,
  };
}

/** Starts the ingress and the forwarder without a decision between them. */
export async function startProxy(
  cleanup: Cleanup,
  options: TestProxyOptions = {},
): Promise<TestProxy> {
  const { ca, timeouts, filter, rewrite, allowPrivate = ['127.0.0.0/8', '::1/128'] } = options;
  const guard = options.guard ?? createGuard({ allowPrivate });
  const forward = createForward({ guard, timeouts, ca });
  const authority = options.authority ?? testAuthority(cleanup);
  const exchanges: Exchange[] = [];
  const outcomes: Outcome[] = [];
  const tunnels: Tunnel[] = [];
  const refusals: ErrorCode[] = [];
  const ingress = createIngress({
    handle: async (exchange) => {
      exchanges.push(exchange);
      const outgoing = asItCame(exchange);
      const { res, abort } = exchange;
      const sent = rewrite?.(outgoing) ?? outgoing;
      const outcome = await forward(sent, res, { signal: abort.signal, filter: filter?.() });
      outcomes.push(outcome);
      if (outcome.failure !== undefined) answerFailure(res, outcome);
    },
    passthrough: () => 'intercept',
    onTunnel: (tunnel) => {
      tunnels.push(tunnel);
    },
    onRefusal: ({ code }) => refusals.push(code),
    log: silentLog,
    ...options,
    guard,
    authority,
  });
  const { port } = await ingress.listen(0);
  cleanup.add(() => forward.close());
  cleanup.add(() => ingress.close(0));
  const url = `http://127.0.0.1:${port}`;
  return { ingress, url, port, authority, forward, guard, exchanges, outcomes, tunnels, refusals };
}

function answerFailure(res: Exchange['res'], { failure }: Outcome): void {
  if (res.headersSent || res.destroyed) return;
  const kind = failure === undefined || failure === 'client_gone' ? undefined : errorKinds[failure];
  res.writeHead(kind?.status ?? 500, { 'content-type': 'application/json' });
  res.end(JSON.stringify({ reason_code: failure }));
}

/** Sends bytes unchanged. Resolves with everything that is received until the other side closes. */
export function raw(port: number, bytes: string | Buffer, endAfterMs?: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => {});
    socket.once('close', () => resolve(text));
    socket.write(bytes);
    if (endAfterMs !== undefined) setTimeout(() => socket.destroy(), endAfterMs);
  });
}

/** Resolves when `condition` is true; fails after five seconds. */
export async function until(condition: () => boolean, what = 'the condition'): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`${what} did not come about`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function bodyOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
