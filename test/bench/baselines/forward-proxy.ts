import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureContext, TLSSocket } from 'node:tls';
import { Agent, buildConnector } from 'undici';

// The bare forward proxy: the minimum that any proxy on this runtime must do. No checks, no guard,
// no decision. Intercepts CONNECT with one certificate, BENCH_CERT and BENCH_KEY; trusts BENCH_CA
// upstream. Prints its port.
const { BENCH_CERT: cert, BENCH_KEY: key, BENCH_CA: ca } = process.env;
const agent = new Agent({
  pipelining: 1,
  connect: buildConnector({ allowH2: false, ...(ca !== undefined && { ca }) }),
});
const context = createSecureContext({ cert, key });
const origins = new WeakMap<object, string>();
const dropped = new Set([
  'host',
  'connection',
  'proxy-connection',
  'content-length',
  'keep-alive',
  'transfer-encoding',
]);

function forward(origin: string, path: string, req: IncomingMessage, res: ServerResponse): void {
  const headers: string[] = [];
  for (let index = 0; index < req.rawHeaders.length; index += 2) {
    const name = req.rawHeaders[index] ?? '';
    if (!dropped.has(name.toLowerCase())) headers.push(name, req.rawHeaders[index + 1] ?? '');
  }
  const length = req.headers['content-length'];
  if (length !== undefined) headers.push('content-length', length);
  const hasBody = length !== undefined || req.headers['transfer-encoding'] !== undefined;
  agent.dispatch(
    { origin, path, method: req.method ?? 'GET', headers, body: hasBody ? req : null },
    {
      onRequestStart() {},
      onResponseStart(controller, status) {
        const raw = controller.rawHeaders;
        const kept: string[] = [];
        if (Array.isArray(raw)) {
          for (let index = 0; index < raw.length; index += 2) {
            const name = String(raw[index]);
            if (!dropped.has(name.toLowerCase()) || name.toLowerCase() === 'content-length') {
              kept.push(name, String(raw[index + 1]));
            }
          }
        }
        res.writeHead(status, kept);
      },
      onResponseData(controller, chunk) {
        if (res.write(chunk)) return;
        controller.pause();
        res.once('drain', () => controller.resume());
      },
      onResponseEnd() {
        res.end();
      },
      onResponseError() {
        res.destroy();
      },
    },
  );
}

const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
  const origin = origins.get(req.socket);
  if (origin !== undefined) return forward(origin, req.url ?? '/', req, res);
  const url = new URL(req.url ?? '');
  forward(url.origin, url.pathname + url.search, req, res);
});
server.on('connect', (req, socket, head: Buffer) => {
  socket.write('HTTP/1.1 200 OK\r\n\r\n');
  if (head.length > 0) socket.unshift(head);
  const secure = new TLSSocket(socket, { isServer: true, secureContext: context });
  origins.set(secure, `https://${req.url}`);
  secure.on('error', () => {});
  server.emit('connection', secure);
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address !== 'string')
    console.log(JSON.stringify({ port: address.port }));
});
