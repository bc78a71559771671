import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { Authority } from '../../../proxy/tls/authority.ts';
import { type Cleanup, listening } from '../sidecar/proxy.ts';

/** An upstream that keeps every byte that reaches it, on a plain port and on one under TLS. */
export interface Recorder {
  readonly plainPort: number;
  readonly tlsPort: number;
  /** A plain port that nothing is bound on. */
  readonly openPort: number;
  /** What arrived since the last look, byte for byte as Latin-1. */
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

/** Answers as a REST API and as an MCP server would, whatever is asked. */
function answer(req: IncomingMessage, res: ServerResponse): void {
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end('{"jsonrpc":"2.0","id":7,"result":{"content":[]}}');
  });
}
