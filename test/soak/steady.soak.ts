import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/programs/processes.ts';
import { bodyOf } from '../support/sidecar/proxy.ts';
import { rssMiB, startTrafficStage, type TrafficStage } from '../support/system/traffic-stage.ts';

/** `SOAK_MINUTES=60 npm run soak -- steady` runs for an hour. */
const minutes = Number(process.env.SOAK_MINUTES ?? 10);
const perSecond = 500;
const tickMs = 20;
const flyingMax = 256;
const idleStreams = 50;
const warmUpShare = 0.2;

/** The share of each kind among a hundred requests. */
const mix = { plain: 40, intercepted: 30, mcp: 15, denied: 10, stream: 5 } as const;
type Kind = keyof typeof mix;

let stage: TrafficStage;
beforeAll(async () => {
  stage = await startTrafficStage((req, res) => void upstream(req, res));
}, 120_000);
afterAll(() => stage?.close(), 120_000);

async function upstream(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const body = await bodyOf(req).catch(() => Buffer.alloc(0));
  if (req.url === '/idle') {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    return;
  }
  if (req.url === '/stream') {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (let index = 0; index < 3; index++) res.write(`data: ${index}\n\n`);
    res.end();
    return;
  }
  res.writeHead(200, { 'content-type': 'application/json' });
  if (req.url !== '/mcp') {
    res.end(body);
    return;
  }
  const { id } = JSON.parse(body.toString()) as { id: number };
  const result = { content: [{ type: 'text', text: 'Ada' }] };
  res.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

const json = { 'content-type': 'application/json' };

async function call(kind: Kind, serial: number): Promise<void> {
  const { bound, open, agent: dispatcher } = stage;
  const post = async (url: string, payload: object, headers: Record<string, string> = json) => {
    const text = JSON.stringify(payload);
    const answer = await request(url, { dispatcher, method: 'POST', headers, body: text });
    return { status: answer.statusCode, text: await answer.body.text(), sent: text };
  };
  switch (kind) {
    case 'plain':
    case 'intercepted': {
      const url = kind === 'plain' ? bound.http : bound.https;
      const note = 'x'.repeat(serial % 1000);
      const { status, text, sent } = await post(`${url}/pay`, { amount: serial % 100, note });
      if (status !== 200 || text !== sent) throw new Error(`${kind}: ${status} ${text}`);
      return;
    }
    case 'denied': {
      const { status, text } = await post(`${bound.http}/pay`, { amount: 101 });
      if (status !== 403 || !text.includes('policy.no_match')) throw new Error(`${status} ${text}`);
      return;
    }
    case 'mcp': {
      const accept = { ...json, accept: 'application/json, text/event-stream' };
      const params = { name: 'lookup', arguments: { id: serial } };
      const message = { jsonrpc: '2.0', id: serial, method: 'tools/call', params };
      const { status, text } = await post(`${bound.http}/mcp`, message, accept);
      if (status !== 200 || !text.includes('"Ada"')) throw new Error(`${status} ${text}`);
      return;
    }
    case 'stream': {
      const answer = await request(`${open.https}/stream`, { dispatcher });
      const text = await answer.body.text();
      if (text !== 'data: 0\n\ndata: 1\n\ndata: 2\n\n') throw new Error(text);
    }
  }
}

const kinds = Object.entries(mix).flatMap(([kind, share]) => Array<Kind>(share).fill(kind as Kind));

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

interface Sample {
  readonly share: number;
  readonly sidecar: number;
  readonly controlPlane: number;
}

/**
 * Sends the requests that are due, including those of late ticks, with at most `flyingMax` in flight. A slow
 * machine therefore gets a lower rate instead of a backlog.
 */
async function runLoad(totalMs: number) {
  const latencies: number[] = [];
  const errors: string[] = [];
  const samples: Sample[] = [];
  const startedAt = performance.now();
  let [sent, flying, sampledAt] = [0, 0, 0];
  for (let now = 0; now < totalMs; now = performance.now() - startedAt) {
    const due = Math.floor((now / 1000) * perSecond) - sent;
    for (let left = Math.min(due, flyingMax - flying); left > 0; left--) {
      const serial = sent++;
      flying += 1;
      const began = performance.now();
      call(kinds[(serial * 37) % kinds.length] ?? 'plain', serial)
        .then(() => serial % 50 === 0 && latencies.push(performance.now() - began))
        .catch((error: Error) => errors.push(error.message))
        .finally(() => {
          flying -= 1;
        });
    }
    if (now - sampledAt > 2_000) {
      sampledAt = now;
      const { sidecar, controlPlane } = stage.separate;
      const [ours, theirs] = [rssMiB(sidecar.pid), rssMiB(controlPlane.pid)];
      samples.push({ share: now / totalMs, sidecar: ours, controlPlane: theirs });
    }
    await delay(tickMs);
  }
  await until('all are answered', () => flying === 0);
  const seconds = (performance.now() - startedAt) / 1000;
  return { sent, errors, samples, latencies, rate: sent / seconds };
}

it(
  `${perSecond} requests a second for ${minutes} minutes cause no error, memory stays constant, and every event is sealed`,
  async () => {
    const idle = await Promise.all(
      Array.from({ length: idleStreams }, () =>
        request(`${stage.open.http}/idle`, { dispatcher: stage.agent, bodyTimeout: 0 }),
      ),
    );
    for (const { body } of idle) body.on('error', () => {}).resume();
    const { sent, errors, samples, latencies, rate } = await runLoad(minutes * 60_000);
    const open = idle.filter(({ body }) => !body.destroyed).length;
    const within = (from: number, to: number) =>
      samples.filter(({ share }) => share >= from && share < to);
    const quarter = (1 - warmUpShare) / 4;
    const [first, last] = [within(warmUpShare, warmUpShare + quarter), within(1 - quarter, 1.1)];
    const rows = [
      ['requests', sent, `${rate.toFixed(0)}/s`, `${errors.length} errors`],
      ['latency p50 / p99, ms', median(latencies).toFixed(1), percentile(latencies, 0.99)],
      ...(['sidecar', 'controlPlane'] as const).map((name) => [
        `${name} RSS first / last quarter / most, MiB`,
        median(first.map((one) => one[name])).toFixed(1),
        median(last.map((one) => one[name])).toFixed(1),
        Math.max(...samples.map((one) => one[name])).toFixed(1),
      ]),
    ];
    process.stdout.write(`\n${rows.map((row) => row.join('  ')).join('\n')}\n`);
    expect(errors.slice(0, 5)).toEqual([]);
    expect(open).toBe(idleStreams);
    await until(
      'the spool is empty',
      async () => (await stage.metric('sallyport_spool_records')) === 0,
      10 * 60_000,
    );
    expect((await stage.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
    const before = median(first.map(({ sidecar }) => sidecar));
    expect(median(last.map(({ sidecar }) => sidecar)) / before).toBeLessThan(1.1);
  },
  (minutes + 20) * 60_000,
);

function percentile(values: readonly number[], share: number): string {
  return (values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0).toFixed(1);
}
