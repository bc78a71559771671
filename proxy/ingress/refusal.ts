import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { GatewayError } from '../../shared/errors/gateway-error.ts';

interface RefusalParts {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The response of a refusal by the ingress itself (design 11). */
function refusalParts({ code, kind, message }: GatewayError): RefusalParts {
  const body = JSON.stringify({
    error: message,
    reason_code: code,
    decision: 'deny',
    next_steps: [],
  });
  return {
    status: kind.status,
    body,
    headers: {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'sallyport-decision': 'deny',
      ...(kind.status === 429 && { 'retry-after': '1' }),
      ...(kind.status === 407 && {
        // Two challenges in one field (RFC 9110 section 11.7.1).
        'proxy-authenticate': 'Basic realm="sallyport", Bearer realm="sallyport"',
      }),
    },
  };
}

/** Refuses a request, or breaks off a response that has begun. The connection is not used again. */
export function refuseRequest(res: ServerResponse, error: GatewayError): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { status, headers, body } = refusalParts(error);
  res.shouldKeepAlive = false;
  res.writeHead(status, headers).end(body);
}

const lingerMs = 1_000;

/** Refuses on a socket that no longer belongs to the HTTP parser, and closes the socket. */
export function refuseSocket(socket: Duplex, error: GatewayError): void {
  if (socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, headers, body } = refusalParts(error);
  const lines = Object.entries({ ...headers, connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
  // Arriving bytes are read and discarded for a moment. Closing a socket with unread bytes resets
  // the connection, and the response could be lost.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
