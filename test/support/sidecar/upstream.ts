import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

/** An upstream that records every request. */
export interface Upstream {
  readonly port: number;
  readonly seen: readonly {
    readonly method: string;
    readonly url: string;
    readonly headers: IncomingMessage['headers'];
    readonly body: string;
  }[];
  /** Sets how the upstream responds to later requests. */
  behave(answer: (req: IncomingMessage, res: ServerResponse, body: string) => void): void;
  close(): Promise<void>;
}

const friendly = (_req: IncomingMessage, res: ServerResponse) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end('{"done":true}');
};

interface UpstreamOptions {
  /** Key and certificate in PEM format. If they are given, the upstream uses TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Default: the loopback address of IPv4. */
  readonly address?: string;
}

export async function startUpstream({
  tls,
  address = '127.0.0.1',
}: UpstreamOptions = {}): Promise<Upstream> {
  const seen: Upstream['seen'][number][] = [];
  let behaviour: Parameters<Upstream['behave']>[0] = friendly;
  const listener = (req: IncomingMessage, res: ServerResponse) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      seen.push({ method: req.method ?? '', url: req.url ?? '', headers: req.headers, body });
      behaviour(req, res, body);
    });
  };
  const server: Server =
    tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  await new Promise<void>((resolve) => {
    server.listen(0, address, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    behave: (answer) => {
      behaviour = answer;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
