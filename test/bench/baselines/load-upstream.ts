import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Server } from 'node:net';

// The upstream of the proxy benchmarks. Answers every request with a small JSON response; `/count`
// returns the number of requests for each path. BENCH_CERT and BENCH_KEY contain the certificate
// and key for TLS as PEM. Prints its ports.
const asked: Record<string, number> = {};
const text = 'x'.repeat(1000);
const answer = Buffer.from(JSON.stringify({ ok: true, text }));
const result = { content: [{ type: 'text', text }] };
const mcpAnswer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }));

function listener(req: IncomingMessage, res: ServerResponse): void {
  req.resume().on('end', () => {
    const { url = '' } = req;
    if (url === '/count') return void res.end(JSON.stringify(asked));
    asked[url] = (asked[url] ?? 0) + 1;
    const bytes = Number(/^(?:\/ours)?\/download\/(\d+)$/.exec(url)?.[1] ?? 0);
    if (bytes > 0) return download(res, bytes);
    const body = url.endsWith('/mcp') ? mcpAnswer : answer;
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
    res.end(body);
  });
}

const piece = Buffer.alloc(65_536, 'x');

function download(res: ServerResponse, bytes: number): void {
  res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes });
  let left = bytes;
  const more = () => {
    while (left > 0) {
      const part = left < piece.length ? piece.subarray(0, left) : piece;
      left -= part.length;
      if (!res.write(part)) {
        res.once('drain', more);
        return;
      }
    }
    res.end();
  };
  more();
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      if (address === null || typeof address === 'string') reject(new Error('no port'));
      else resolve(address.port);
    });
  });
}

const { BENCH_CERT: cert, BENCH_KEY: key } = process.env;
const options = { keepAliveTimeout: 60_000 };
const http = await listen(createServer(options, listener));
const https = await listen(createTlsServer({ ...options, cert, key }, listener));
const opaque = await listen(createTlsServer({ ...options, cert, key }, listener));
console.log(JSON.stringify({ http, https, opaque }));
