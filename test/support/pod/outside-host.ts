import fs from 'node:fs';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer, type Server } from 'node:net';
import { greeting, mailPort, type OutsideOptions } from './outside-options.ts';

// Every host outside of a pod, run in the network namespace around it. It serves HTTP, HTTPS and a
// protocol in which the server speaks first, and connects ports to Unix sockets of the test. Takes
// one JSON argument, prints `ready`, and then one JSON line for each request.
const { identity, bridges } = JSON.parse(process.argv[2] ?? '') as OutsideOptions;
const pem = fs.readFileSync(identity);

const answer =
  (scheme: string): RequestListener =>
  (req, res) => {
    const { method, headers, url, socket } = req;
    const told = { scheme, method, host: headers.host, url, to: socket.localAddress };
    console.log(JSON.stringify({ ...told, authorization: headers.authorization }));
    req.resume();
    res.end(`${scheme}://${headers.host}${url} answered\n`);
  };

const mail = createServer((socket) => {
  socket.write(greeting);
  socket.on('data', (chunk) => socket.write(`250 ${chunk}`));
  socket.on('error', () => {});
});

function bridge(path: string): Server {
  return createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path, allowHalfOpen: true });
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy()).pipe(near);
  });
}

const servers: [Server, number][] = [
  [createHttpServer(answer('http')), 80],
  [createHttpsServer({ key: pem, cert: pem }, answer('https')), 443],
  [mail, mailPort],
  ...bridges.map(({ port, socket }): [Server, number] => [bridge(socket), port]),
];
for (const [server, port] of servers) {
  await new Promise<void>((resolve) => server.listen(port, '::', resolve));
}
console.log('ready');
