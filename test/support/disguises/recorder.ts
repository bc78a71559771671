import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Authority } from '../../../proxy/tls/authority.ts';
import { type Cleanup, listening } from '../sidecar/proxy.ts';

/** An upstream that keeps every byte that reaches it, on a plain port and on a TLS port. */
export interface Recorder {
  readonly plainPort: number;
  readonly tlsPort: number;
  /** A plain port without a binding. */
  readonly openPort: number;
  /** Returns the bytes that arrived since the last call, as Latin-1. */
  take(): string;
}

export async function startRecorder(cleanup: Cleanup, authority: Authority): Promise<Recorder> {
  let arrived = '';
  const record = (socket: Duplex) => {
    socket.on('data', (chunk: Buffer) => {
      arrived += chunk.toString('latin1');
    });
  };
  const { key, cert } = authority.leafFor('127.0.0.1');
  const plain = createServer(answer).on('connection', record);
  const open = createServer(answer).on('connection', record);
  const tls = createTlsServer({ key, cert }, answer).on('secureConnection', record);
  return {
    plainPort: await listening(plain, cleanup),
    tlsPort: await listening(tls, cleanup),
    openPort: await listening(open, cleanup),
    take() {
      const taken = arrived;
      arrived = '';
      return taken;
    },
  };
}

/** Responds as a REST API or an MCP server would, whatever the request is. */
function answer(req: IncomingMessage, res: ServerResponse): void {
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end('{"jsonrpc":"2.0","id":7,"result":{"content":[]}}');
  });
}
