import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Load } from '../load.ts';

// Generates the load of the benchmarks: keep-alive connections with one request at a time on each.
// Requests are written and responses read as bytes, so that the load itself costs little. Takes one
// JSON argument and prints one JSON result.
const load = JSON.parse(process.argv[2] ?? '') as Load;
const authority = `127.0.0.1:${load.port}`;
const isAbsolute = load.proxyPort !== undefined && load.secure !== true;
const target = isAbsolute ? `http://${authority}${load.path}` : load.path;
const headers = {
  Host: authority,
  'Content-Type': 'application/json',
  Accept: '*/*',
  'User-Agent': 'bench',
  ...load.headers,
  'Content-Length': Buffer.byteLength(load.body),
};
const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
const start = `POST ${target} HTTP/1.1\r\n${head.join('')}`;
const request = Buffer.from(`${start}\r\n${load.body}`);
const passports =
  load.passportsFile === undefined
    ? undefined
    : readFileSync(load.passportsFile, 'utf8').trim().split('\n');
const everyMs =
  load.ratePerSecond === undefined ? 0 : (load.connections / load.ratePerSecond) * 1000;
const latencies: number[] = [];
let measuring = false;
let stopped = false;
let answers = 0;
let wrong = 0;
let example = '';

function fail(what: string): void {
  wrong++;
  example ||= what.slice(0, 300);
}

function open(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const port = load.proxyPort ?? load.port;
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const secured = () => {
      // Certificates are not verified here, because only throughput is measured; tests verify them.
      const secure = connectTls({ socket, rejectUnauthorized: false }, () => resolve(secure));
      secure.once('error', reject);
    };
    socket.once('error', reject);
    socket.once('connect', () => {
      if (load.secure !== true) resolve(socket);
      else if (load.proxyPort === undefined) secured();
      else {
        socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
        socket.once('data', secured);
      }
    });
  });
}

/** Resolves when the load has stopped and the last response has arrived. */
function drive(socket: Socket, index: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let startedAt = 0;
  let dueAt = performance.now() + (everyMs * index) / load.connections;
  let chunks: Buffer[] = [];
  let seen = 0;
  let whole = Number.POSITIVE_INFINITY;
  const send = () => {
    startedAt = performance.now();
    const passport = passports?.pop();
    if (passports === undefined) socket.write(request);
    else if (passport === undefined) resolve();
    else socket.write(`${start}Action-Passport: ${passport}\r\n\r\n${load.body}`);
  };
  const next = () => {
    if (everyMs === 0) return send();
    dueAt += everyMs;
    setTimeout(send, dueAt - performance.now());
  };
  const finish = () => {
    if (measuring) latencies.push(performance.now() - startedAt);
    const text = Buffer.concat(chunks, seen).toString('latin1');
    answers++;
    if (!text.startsWith('HTTP/1.1 200 ') || !text.includes(load.answerIncludes)) fail(text);
    chunks = [];
    seen = 0;
    whole = Number.POSITIVE_INFINITY;
    if (stopped) resolve();
    else next();
  };
  socket.on('data', (chunk) => {
    chunks.push(chunk);
    seen += chunk.length;
    if (whole === Number.POSITIVE_INFINITY) whole = lengthOf(chunks);
    if (seen === whole) finish();
    else if (seen > whole) fail(`${seen - whole} bytes too many`);
  });
  socket.on('error', (error) => fail(String(error)));
  socket.on('close', () => {
    fail('the connection was closed');
    resolve();
  });
  next();
  return promise;
}

/** Returns the length of the response, head and body; infinity until its head has arrived. */
function lengthOf(chunks: Buffer[]): number {
  const start = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  const end = start.indexOf('\r\n\r\n');
  if (end < 0) return Number.POSITIVE_INFINITY;
  const length = /\r\ncontent-length: (\d+)/i.exec(start.toString('latin1', 0, end))?.[1];
  return length === undefined ? end + 4 : end + 4 + Number(length);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const sockets = await Promise.all(Array.from({ length: load.connections }, open));
const drives = sockets.map(drive);
await pause(load.warmupMs);
measuring = true;
const startedAt = performance.now();
await (passports === undefined ? pause(load.measureMs) : Promise.all(drives));
measuring = false;
const seconds = (performance.now() - startedAt) / 1000;
stopped = true;
await Promise.race([Promise.all(drives), pause(10_000).then(() => fail('no answer for 10 s'))]);
latencies.sort((a, b) => a - b);
const at = (part: number) => latencies[Math.floor(latencies.length * part)] ?? 0;
const perSecond = latencies.length / seconds;
console.log(JSON.stringify({ perSecond, p50: at(0.5), p99: at(0.99), answers, wrong, example }));
process.exit(0);
