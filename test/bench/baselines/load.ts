import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

// The load of the proxy benchmarks: keep-alive connections, one request at a time on each, written
// and read as bytes so that the load itself costs little. Takes one JSON argument, prints one.
interface Load {
  readonly proxyPort: number;
  readonly upstreamPort: number;
  readonly secure: boolean;
  readonly connections: number;
  readonly warmupMs: number;
  readonly measureMs: number;
  readonly path: string;
  /** Requests a second over all connections; undefined for as many as go. */
  readonly rate?: number;
}

const load = JSON.parse(process.argv[2] ?? '') as Load;
const authority = `127.0.0.1:${load.upstreamPort}`;
const body = JSON.stringify({ text: 'x'.repeat(1000) });
const target = load.secure ? load.path : `http://${authority}${load.path}`;
const request = Buffer.from(
  `POST ${target} HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
);
const latencies: number[] = [];
let measuring = false;
let done = 0;
let wrong = 0;
let stopped = false;

function open(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: load.proxyPort, host: '127.0.0.1', noDelay: true });
    socket.once('error', reject);
    if (!load.secure) {
      socket.once('connect', () => resolve(socket));
      return;
    }
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    socket.once('data', () => {
      // Certificates are checked by the tests; here only the work is measured.
      const secure = connectTls({ socket, rejectUnauthorized: false }, () => resolve(secure));
      secure.once('error', reject);
    });
  });
}

function drive(socket: Socket): void {
  let started = 0;
  let seen = Buffer.alloc(0);
  let missing = -1;
  const next = () => {
    if (stopped) return;
    started = performance.now();
    socket.write(request);
  };
  const finish = () => {
    missing = -1;
    if (measuring) {
      done++;
      latencies.push(performance.now() - started);
    }
    if (load.rate === undefined) next();
    else
      setTimeout(
        next,
        Math.max(0, (load.connections / load.rate) * 1000 - (performance.now() - started)),
      );
  };
  socket.on('data', (chunk) => {
    if (missing < 0) {
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const end = seen.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = seen.toString('latin1', 0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (!head.startsWith('HTTP/1.1 200') || length < 1000) wrong++;
      missing = length - (seen.length - end - 4);
      seen = Buffer.alloc(0);
    } else {
      missing -= chunk.length;
    }
    if (missing === 0) finish();
  });
  socket.on('error', () => wrong++);
  socket.on('close', () => {
    if (!stopped) wrong++;
  });
  next();
}

const sockets = await Promise.all(Array.from({ length: load.connections }, open));
for (const socket of sockets) drive(socket);
await new Promise((resolve) => setTimeout(resolve, load.warmupMs));
measuring = true;
const start = performance.now();
await new Promise((resolve) => setTimeout(resolve, load.measureMs));
const seconds = (performance.now() - start) / 1000;
stopped = true;
latencies.sort((a, b) => a - b);
const at = (part: number) => latencies[Math.floor(latencies.length * part)] ?? 0;
console.log(JSON.stringify({ perSecond: done / seconds, p50: at(0.5), p99: at(0.99), wrong }));
for (const socket of sockets) socket.destroy();
process.exit(0);
