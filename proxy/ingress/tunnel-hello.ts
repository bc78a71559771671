import type { Socket } from 'node:net';
import { type Authority, isAddress, normaliseHost } from '../../shared/base/host.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ClientHello, ClientHelloReader, isRetryRequest } from '../tls/client-hello.ts';
import { readUntil } from './read-until.ts';

interface TunnelEnds extends Authority {
  readonly agent: Socket;
  readonly upstream: Socket;
  /** Time limit for the agent's ClientHello, and for the upstream's response to the ClientHello. */
  readonly handshakeMs: number;
  /** Whether the tunnel may contain protocols other than TLS and HTTP. */
  readonly mayBeOpaque: boolean;
}

/**
 * The content of a tunnel: TLS that may continue, or HTTP that is read call by call; with
 * `refusal`, every call is refused.
 */
type TunnelContent =
  | { readonly kind: 'tls'; readonly sni?: string | undefined }
  | { readonly kind: 'opaque' }
  | { readonly kind: 'http'; readonly refusal?: GatewayError | undefined };

/** The refusal of a tunnel because of its content; `sni` is the server name in the ClientHello. */
export class TunnelRefusal extends GatewayError {
  sni: string | undefined;
}

export const helloBytesMax = 32 * 1024;
// RFC 8446 section 6: fatal alerts unrecognized_name and handshake_failure.
const alerts: Readonly<Record<string, number>> = {
  'proxy.sni_mismatch': 112,
  'proxy.sni_missing': 112,
};
const handshakeFailure = 40;

/**
 * Reads the agent's first bytes before any byte reaches the upstream. A ClientHello must name the
 * host of the CONNECT unencrypted, and is then forwarded. Rejects with a TunnelRefusal, or with a
 * plain error if one side closed.
 */
export async function admitHello(ends: TunnelEnds): Promise<TunnelContent> {
  if (ends.mayBeOpaque && (await upstreamSpeaksFirst(ends))) return { kind: 'opaque' };
  const first = await readHello(ends, false);
  if (first === 'opaque') return { kind: 'opaque' };
  if (first === 'http') {
    return ends.port === 443
      ? { kind: 'http', refusal: refused('proxy.tls_required') }
      : { kind: 'http' };
  }
  const { serverName: sni } = first;
  // A server that wants a second ClientHello responds to the first one only with a
  // HelloRetryRequest.
  if (await asksAgain(ends)) await readHello(ends, true);
  return { kind: 'tls', sni };
}

/**
 * Waits for the first bytes of either side. In some protocols (SMTP, SSH, MySQL) the server sends
 * them. True also if both sides stay silent until the time limit.
 */
function upstreamSpeaksFirst({ agent, upstream, handshakeMs }: TunnelEnds): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const settle = (isUpstream: boolean) => {
    clearTimeout(timer);
    agent.off('readable', onAgent).off('close', onAgent);
    upstream.off('readable', onUpstream).off('close', onUpstream);
    resolve(isUpstream);
  };
  const onAgent = () => settle(false);
  const onUpstream = () => settle(true);
  const timer = setTimeout(onUpstream, handshakeMs);
  agent.on('readable', onAgent).once('close', onAgent);
  upstream.on('readable', onUpstream).once('close', onUpstream);
  return promise;
}

async function readHello(
  ends: TunnelEnds,
  isRetry: boolean,
): Promise<ClientHello | 'http' | 'opaque'> {
  const { agent, upstream, handshakeMs } = ends;
  const reader = new ClientHelloReader({ bytesMax: helloBytesMax, skipsOtherRecords: isRetry });
  const late = refused('proxy.tls_hello_timeout');
  const { value, bytes } = await readUntil(agent, { timeoutMs: handshakeMs, late }, (chunk) => {
    const reading = reader.push(chunk);
    return reading.kind === 'more' ? undefined : reading;
  });
  switch (value.kind) {
    case 'hello': {
      assertNames(ends, value.hello);
      upstream.write(bytes.subarray(0, value.endsAt));
      if (bytes.length > value.endsAt) agent.unshift(bytes.subarray(value.endsAt));
      return value.hello;
    }
    case 'http':
      if (isRetry) throw refused('proxy.tls_hello_invalid');
      agent.unshift(bytes);
      return 'http';
    case 'other':
      if (ends.mayBeOpaque && !isRetry) {
        agent.unshift(bytes);
        return 'opaque';
      }
      throw refused(ends.port === 443 ? 'proxy.tls_required' : 'proxy.protocol_refused');
    case 'malformed':
      throw refused('proxy.tls_hello_invalid');
    case 'too_large':
      throw refused('proxy.tls_hello_too_large');
  }
}

/**
 * Returns whether the upstream's first bytes request a second ClientHello. If they do, they are
 * sent to the agent.
 */
async function asksAgain({ agent, upstream, handshakeMs }: TunnelEnds): Promise<boolean> {
  let seen = Buffer.alloc(0);
  const late = new Error('The upstream did not answer the ClientHello in time.');
  const limit = { timeoutMs: handshakeMs, late };
  const { value, bytes } = await readUntil(upstream, limit, (chunk) => {
    seen = Buffer.concat([seen, chunk]);
    return isRetryRequest(seen);
  });
  if (!value) upstream.unshift(bytes);
  else agent.write(bytes);
  return value;
}

function assertNames({ host }: Authority, { serverName, isEncrypted }: ClientHello): void {
  if (isEncrypted) throw refused('proxy.ech_refused', serverName);
  if (serverName === undefined) {
    if (isAddress(host)) return;
    throw refused('proxy.sni_missing');
  }
  if (normaliseHost(serverName) !== host) throw refused('proxy.sni_mismatch', serverName);
}

type RefusalCode =
  | 'proxy.tls_required'
  | 'proxy.protocol_refused'
  | `proxy.tls_hello_${'invalid' | 'too_large' | 'timeout'}`
  | 'proxy.ech_refused'
  | `proxy.sni_${'missing' | 'mismatch'}`;

function refused(code: RefusalCode, sni?: string): TunnelRefusal {
  const refusal = new TunnelRefusal(code);
  refusal.sni = sni;
  return refusal;
}

/** Closes the agent's side with a TLS alert, which the agent's TLS library can report. */
export function alertAndClose(agent: Socket, { code }: GatewayError): void {
  const description = alerts[code] ?? handshakeFailure;
  agent.end(Buffer.from([0x15, 3, 1, 0, 2, 2, description]));
  agent.resume();
}
