import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';

export interface ServerLimits {
  /** Time for all of a request's head; slower clients are cut off. */
  readonly headersMs: number;
  /** Time for a whole request, body included. Says nothing about how long an answer may take. */
  readonly requestMs: number;
  readonly keepAliveMs: number;
  readonly headerBytesMax: number;
}

const defaultServerLimits: ServerLimits = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than the usual load balancer's, so that it is the one to close an idle connection.
  keepAliveMs: 65_000,
  headerBytesMax: 16_384,
};

/** A server whose clients cannot hold it up: every phase of a request has an end. */
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

/** What cannot be read as HTTP is answered without our pipeline, and the connection ends. */
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
  // Which operation was meant is not known: for those that decide it is a denial.
  const body = JSON.stringify({ decision: 'deny', error: text, reason_code: 'request.invalid' });
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}
