// Follows one ledger on many connections. Prints one line when all of them are open, and another
// with the delays of the events.
import { get } from 'node:http';

interface Work {
  readonly origin: string;
  readonly key: string;
  readonly followers: number;
  readonly events: number;
  /** Number of events at the beginning that are not timed. */
  readonly warmUp: number;
}
const { origin, key, followers, events, warmUp } = JSON.parse(process.argv[2] ?? '') as Work;

const positionMark = '"position":';
const timeMark = '"occurred_at":"';
const end = '\n\n';
const latencies: number[] = [];
let messages = 0;
let wrong = 0;
let following = 0;
let unfinished = followers;
const allFollow = Promise.withResolvers<void>();
const allDone = Promise.withResolvers<void>();

function follow(): void {
  let rest: Buffer = Buffer.alloc(0);
  let last = 0;
  let isOff = false;
  const headers = { authorization: `Bearer ${key}` };
  const request = get(`${origin}/api/v1/evidence/stream`, { headers, agent: false }, (response) => {
    response.once('data', () => {
      following += 1;
      if (following === followers) allFollow.resolve();
    });
    response.on('data', (chunk: Buffer) => {
      const now = Date.now();
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let from = 0;
      for (let to = bytes.indexOf(end); to >= 0; to = bytes.indexOf(end, from)) {
        take(bytes, from, now);
        from = to + end.length;
      }
      rest = bytes.subarray(from);
    });
    response.on('close', () => {
      if (last < events) wrong += 1;
      done();
    });
  });
  request.on('error', (error) => {
    throw error;
  });

  const done = () => {
    unfinished -= 1;
    if (unfinished === 0) allDone.resolve();
  };
  const take = (bytes: Buffer, from: number, now: number) => {
    // Skips comments, which only show that the stream is alive.
    if (bytes[from] === 0x3a || bytes[from] === 0x72) return;
    const position = numberAt(bytes, bytes.indexOf(positionMark, from) + positionMark.length);
    if (position !== last + 1 && !isOff) {
      isOff = true;
      wrong += 1;
    }
    last = position;
    messages += 1;
    if (position > warmUp && messages % 20 === 0) {
      const at = bytes.indexOf(timeMark, from) + timeMark.length;
      latencies.push(now - Date.parse(bytes.toString('latin1', at, at + 24)));
    }
    if (position === events) request.destroy();
  };
}

function numberAt(bytes: Buffer, from: number): number {
  let value = 0;
  for (let at = from; ; at++) {
    const digit = (bytes[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return value;
    value = value * 10 + digit;
  }
}

for (let at = 0; at < followers; at++) follow();
await allFollow.promise;
console.log(JSON.stringify({ following }));
const limit = setTimeout(() => allDone.resolve(), 180_000);
await allDone.promise;
clearTimeout(limit);
latencies.sort((a, b) => a - b);
const at = (part: number) => latencies[Math.floor(latencies.length * part)] ?? Number.NaN;
console.log(JSON.stringify({ p50: at(0.5), p99: at(0.99), messages, wrong }));
process.exit(0);
