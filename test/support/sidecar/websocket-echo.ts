import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface WebSocketEcho {
  readonly port: number;
  /** The handshakes that arrived. */
  readonly handshakes: readonly { readonly url: string; readonly headers: IncomingHttpHeaders }[];
  /** Number of open connections. */
  open(): number;
  close(): Promise<void>;
}

const closeOpcode = 8;

/** A WebSocket server (RFC 6455) that echoes every short text message. */
export async function startWebSocketEcho(): Promise<WebSocketEcho> {
  const handshakes: WebSocketEcho['handshakes'][number][] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_req, res) => res.writeHead(426).end());
  server.on('upgrade', (req, socket: Socket) => {
    handshakes.push({ url: req.url ?? '', headers: req.headers });
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    const accept = createHash('sha1')
      .update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.on('error', () => {});
    socket.on('end', () => socket.end());
    socket.on('data', (frame) => {
      socket.write(echoOf(frame));
      if (((frame[0] ?? 0) & 0x0f) === closeOpcode) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    handshakes,
    open: () => sockets.size,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The frame of a client is masked, and the frame of a server is not (section 5.1). */
function echoOf(frame: Buffer): Buffer {
  const length = (frame[1] ?? 0) & 0x7f;
  const mask = frame.subarray(2, 6);
  const payload = frame.subarray(6, 6 + length).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([frame[0] ?? 0, length]), payload]);
}
