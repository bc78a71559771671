import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';

export interface ServerLimits {
  /** Timeout for a request's header section. */
  readonly headersMs: number;
  /** Timeout for a whole request, including its body. It does not limit the response. */
  readonly requestMs: number;
  readonly keepAliveMs: number;
  readonly headerBytesMax: number;
}

const defaultServerLimits: ServerLimits = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than the keep-alive timeout of usual load balancers, so that the load balancer is the
  // one to close idle connections.
  keepAliveMs: 65_000,
  headerBytesMax: 16_384,
};

/**
 * Creates a server with a timeout for every phase of a request, so that slow clients cannot block
 * it.
 */
export function createHttpServer(
  listener: RequestListener,
  limits: ServerLimits = defaultServerLimits,
): Server {
  const server = createServer(
    {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      maxHeaderSize: limits.headerBytesMax,
      connectionsCheckingInterval: Math.min(limits.headersMs, 1_000),
      requireHostHeader: true,
    },
    listener,
  );
  server.maxHeadersCount = 100;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    refuse(socket, error.code);
  });
  return server;
}

/** Responds directly on the socket to input that is not valid HTTP, and closes the connection. */
function refuse(socket: Socket, code: string | undefined): void {
  if (!socket.writable || code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [status, text] =
    code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The request headers exceed the limit.']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long to arrive.']
        : ['400 Bad Request', 'The request is not valid HTTP.'];
  // The operation is unknown and may be a decision, so the body also states a denial.
  const body = JSON.stringify({ decision: 'deny', error: text, reason_code: 'request.invalid' });
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
