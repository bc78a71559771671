import { type ClientRequest, Agent as HttpAgent, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createProxyServer } from 'http-proxy';
import { formatAuthority } from '../../shared/base/host.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type Guard, literalRefusal } from '../../shared/upstream/address-guard.ts';
import { classifyFailure } from '../../shared/upstream/connection-failure.ts';
import { type UpstreamSecurity, upstreamSecurity } from '../../shared/upstream/dial.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import type { Outcome } from './forwarding.ts';
import { guardedSocket } from './guarded-socket.ts';
import { handshakeFault, openingHeaders } from './websocket-answer.ts';

/** A connection whose agent asked to change protocols; the HTTP parser has released it. */
interface UpgradedConnection {
  readonly req: IncomingMessage;
  readonly socket: Duplex;
  /** Bytes that the agent sent after its request. */
  readonly head: Buffer;
}

/** An open tunnel. */
interface OpenTunnel {
  /** Bytes in both directions so far. */
  bytes(): number;
  /** Closes the tunnel normally, because the sidecar shuts down. */
  end(): void;
}

interface TunnelControl {
  /** Aborts the tunnel at any stage. */
  readonly signal: AbortSignal;
  /** Reads the upstream's response headers and all later bytes, which are uncompressed. */
  readonly filter?: ResponseFilter | undefined;
  readonly responseHeaders: Readonly<Record<string, string>>;
  /**
   * Called when the upstream has opened the tunnel; before that, the caller may respond on the
   * connection.
   */
  readonly onOpen: (tunnel: OpenTunnel) => void;
}

export type TunnelUpgrade = (
  outgoing: Outgoing,
  connection: UpgradedConnection,
  control: TunnelControl,
) => Promise<Outcome>;

interface TunnelSettings {
  readonly guard: Guard;
  /** How long an upstream may take to open a tunnel. */
  readonly handshakeMs: number;
  /** Longest pause in an open tunnel. */
  readonly idleMs: number;
  /** PEM certificates of authorities to trust in addition to those that Node trusts. */
  readonly ca?: readonly string[] | undefined;
}

/**
 * Tunnels a WebSocket to its upstream through http-proxy: the handshake in the form that was
 * judged, to the address that was checked. Frames are not parsed. Never rejects. If the upstream
 * does not open the WebSocket, no byte is sent to the agent; otherwise resolves when both sides
 * have closed.
 */
export function createTunnelUpgrade(settings: TunnelSettings): TunnelUpgrade {
  const security = upstreamSecurity(settings.ca);
  return (outgoing, connection, control) => {
    const refusal = literalRefusal(settings.guard, outgoing.host, outgoing.port);
    if (refusal !== undefined) {
      return Promise.resolve({ responseBytes: 0, failure: 'proxy.address_refused' });
    }
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const parts = { ...settings, ...control, ...connection, security, outgoing, resolve };
    new WebSocketTunnel(parts).open();
    return promise;
  };
}

interface TunnelParts extends TunnelSettings, TunnelControl, UpgradedConnection {
  readonly security: UpstreamSecurity;
  readonly outgoing: Outgoing;
  readonly resolve: (outcome: Outcome) => void;
}

class WebSocketTunnel {
  readonly #parts: TunnelParts;
  readonly #socket: Socket;
  #request: ClientRequest | undefined;
  #upstream: Socket | undefined;
  #outcome: Omit<Outcome, 'responseBytes'> = {};
  #sentBytes = 0;
  #receivedBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: TunnelParts) {
    this.#parts = parts;
    this.#socket = parts.socket as Socket;
  }

  open(): void {
    const { outgoing, req, head, signal, handshakeMs, filter } = this.#parts;
    const authority = formatAuthority(outgoing, outgoing.scheme === 'https' ? 443 : 80);
    const proxy = createProxyServer({
      target: `${outgoing.scheme}://${authority}`,
      agent: agentFor(this.#parts),
      secure: true,
      changeOrigin: true,
    });
    proxy.on('proxyReqWs', (request) => {
      this.#request = request;
      // http-proxy parses and writes the path again; the judged path must be sent.
      request.path = outgoing.path;
    });
    proxy.on('error', (error) => this.#broken(error));
    this.#socket.once('close', this.#onAgentClosed);
    signal.addEventListener('abort', this.#onAbort, { once: true });
    if (signal.aborted || this.#socket.destroyed) {
      this.#onAbort();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#request?.destroy(Object.assign(new Error('No handshake.'), { code: 'ETIMEDOUT' }));
    }, handshakeMs);
    const agentSide =
      filter === undefined ? this.#socket : guardedSocket(this.#socket, filter, this.#onCut);
    try {
      proxy.ws(asJudged(req, outgoing, filter === undefined), agentSide, head);
      this.#takeHandshake();
    } catch {
      const detail = 'The request cannot be written.';
      this.#notOpened({ failure: 'upstream.upgrade_refused', detail });
    }
  }

  /**
   * Lets http-proxy continue only after a valid handshake; the caller refuses anything else.
   * Without this check, http-proxy would forward any response, and would close the agent's
   * connection after a failure.
   */
  #takeHandshake(): void {
    const request = this.#request;
    if (request === undefined) {
      this.#notOpened({ failure: 'upstream.upgrade_refused', detail: 'Nothing was sent.' });
      return;
    }
    const [carryOn] = request.listeners('upgrade') as ((...parts: unknown[]) => void)[];
    for (const event of ['upgrade', 'response', 'error']) request.removeAllListeners(event);
    request.on('error', (error) => this.#notOpened(classifyFailure(error, true)));
    request.on('response', (answer: IncomingMessage) => {
      this.#notOpened({
        status: answer.statusCode,
        failure: 'upstream.upgrade_refused',
        detail: `It answered ${answer.statusCode}.`,
      });
    });
    request.on('upgrade', (answer: IncomingMessage, upstream: Socket, head: Buffer) => {
      const fault = this.#faultOf(answer);
      if (fault !== undefined) {
        upstream.destroy();
        this.#notOpened({ status: 101, ...fault });
        return;
      }
      this.#opened(answer, upstream);
      carryOn?.(answer, upstream, head);
      this.#count(upstream);
    });
  }

  #faultOf(answer: IncomingMessage): Pick<Outcome, 'failure' | 'detail'> | undefined {
    const { req, filter } = this.#parts;
    const detail = handshakeFault(req, answer);
    if (detail !== undefined) return { failure: 'upstream.upgrade_refused', detail };
    const mode = filter?.head(101, answer.headers as Record<string, string>);
    return mode === 'cut' || mode === 'buffer' ? reflected : undefined;
  }

  #opened(answer: IncomingMessage, upstream: Socket): void {
    const { onOpen, responseHeaders, idleMs } = this.#parts;
    clearTimeout(this.#timer);
    this.#upstream = upstream;
    this.#outcome = { status: 101 };
    answer.headers = openingHeaders(answer, responseHeaders);
    // The agent's side closes with the upstream, because a half-closed connection could stay open
    // forever.
    upstream.once('close', () => this.#socket.destroySoon());
    onOpen({
      bytes: () => this.#sentBytes + this.#receivedBytes,
      end: () => this.#end({ failure: 'proxy.draining', detail: 'The sidecar ended.' }),
    });
    process.nextTick(() => {
      for (const end of [this.#socket, upstream]) {
        end.setTimeout(idleMs, () => {
          this.#end({ failure: 'upstream.timeout', detail: 'The tunnel was silent for too long.' });
        });
      }
    });
  }

  #count(upstream: Socket): void {
    upstream.on('data', (bytes: Buffer) => {
      this.#receivedBytes += bytes.length;
    });
    this.#socket.on('data', (bytes: Buffer) => {
      this.#sentBytes += bytes.length;
    });
  }

  #end(outcome: Pick<Outcome, 'failure' | 'detail'>): void {
    this.#outcome = { ...outcome, ...this.#outcome };
    this.#socket.destroy();
  }

  #broken(error: Error): void {
    this.#outcome = { failure: 'upstream.reset', detail: error.message, ...this.#outcome };
  }

  #notOpened(outcome: Omit<Outcome, 'responseBytes'>): void {
    this.#outcome = { ...outcome, ...this.#outcome };
    this.#settle();
    this.#request?.destroy();
  }

  readonly #onCut = (failure?: unknown): void =>
    this.#end(failure === undefined ? reflected : unreadable);

  readonly #onAgentClosed = (): void => {
    if (this.#upstream === undefined) {
      this.#notOpened({ failure: 'client_gone', detail: 'The agent went away.' });
      return;
    }
    // Closes both halves, because an upstream that keeps sending would keep the other half open.
    this.#upstream.destroySoon();
    this.#settle();
  };

  readonly #onAbort = (): void => {
    const { reason } = this.#parts.signal;
    const detail = reason instanceof GatewayError ? reason.message : 'It was broken off.';
    const outcome = { failure: 'client_gone', detail } as const;
    if (this.#upstream === undefined) this.#notOpened(outcome);
    else this.#end(outcome);
  };

  #settle(): void {
    clearTimeout(this.#timer);
    this.#socket.off('close', this.#onAgentClosed);
    this.#parts.signal.removeEventListener('abort', this.#onAbort);
    const { resolve } = this.#parts;
    const bytes = this.#upstream === undefined ? {} : { requestBytes: this.#sentBytes };
    resolve({ ...this.#outcome, ...bytes, responseBytes: this.#receivedBytes });
  }
}

const reflected = {
  failure: 'credential.reflected',
  detail: 'The upstream sent the credential back.',
} as const;

const unreadable = {
  failure: 'upstream.reset',
  detail: 'What the upstream sent could not be read.',
} as const;

/**
 * The headers that a WebSocket handshake has in addition to those of other calls (RFC 6455, section
 * 4.1).
 */
const handshakeHeaders = [
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
];

function agentFor({ outgoing, guard, security }: TunnelParts): HttpAgent | HttpsAgent {
  const lookup = guard.lookup(outgoing.port);
  return outgoing.scheme === 'https'
    ? new HttpsAgent({ lookup, ...security })
    : new HttpAgent({ lookup });
}

/**
 * The request that http-proxy sends: path and headers of the judged call, and the handshake's
 * headers.
 */
function asJudged(req: IncomingMessage, outgoing: Outgoing, mayCompress: boolean): IncomingMessage {
  const headers: IncomingMessage['headers'] = {};
  for (let index = 0; index + 1 < outgoing.headers.length; index += 2) {
    headers[(outgoing.headers[index] ?? '').toLowerCase()] = outgoing.headers[index + 1];
  }
  for (const name of handshakeHeaders) {
    const value = req.headers[name];
    const isCompression = name === 'sec-websocket-extensions';
    if (value !== undefined && (mayCompress || !isCompression)) headers[name] = value;
  }
  req.url = outgoing.path;
  // Overwrites `Connection`, because other headers that the agent lists in it would be dropped.
  req.headers = { ...headers, connection: 'Upgrade', upgrade: 'websocket' };
  return req;
}
