import { Agent, createServer } from 'node:http';
import httpProxy from 'http-proxy';

// A plain HTTP forward proxy built on the library http-proxy. Prints its port.
const agent = new Agent({ keepAlive: true });
const proxy = httpProxy.createProxyServer({ agent });
proxy.on('error', (_error, _req, res) => {
  if ('writeHead' in res) res.writeHead(502).end();
});
const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
  const url = new URL(req.url ?? '');
  req.url = url.pathname + url.search;
  proxy.web(req, res, { target: url.origin });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address !== 'string')
    console.log(JSON.stringify({ port: address.port }));
});
