import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/programs/processes.ts';
import { headOf, type RawClient, rawClient } from '../support/sidecar/raw-client.ts';
import { startTrafficStage, type TrafficStage } from '../support/system/traffic-stage.ts';

const slowPeers = 256;
const streams = 500;
const attempts = 10_000;
const attemptsAtOnce = 500;
const trickleMs = 10_000;

let stage: TrafficStage;
const held = new Set<ServerResponse>();
beforeAll(async () => {
  stage = await startTrafficStage(upstream, {
    SALLYPORT_HEAD_TIMEOUT_MS: '3000',
    SALLYPORT_MAX_CONNECTIONS: '1200',
  });
}, 120_000);
afterAll(() => stage?.close());

function upstream(req: IncomingMessage, res: ServerResponse): void {
  if (req.url === '/events') {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    held.add(res);
    res.once('close', () => held.delete(res));
    return;
  }
  if (req.url === '/large') {
    const part = Buffer.alloc(65_536);
    const more = () => {
      while (!res.destroyed && res.write(part));
      res.once('drain', more);
    };
    more();
    return;
  }
  req.resume();
  req.once('end', () => res.end('{}'));
}

const sockets = new Set<Socket>();
const kept = async (bytes: string) => {
  const client = await rawClient(stage.proxyPort, bytes);
  sockets.add(client.socket);
  return client;
};
const letGo = async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await until('all are let go', async () => (await stage.metric('sallyport_connections')) <= 64);
  await until(
    'no call is left',
    async () => (await stage.metric('sallyport_calls_in_flight')) === 0,
  );
};

/** Checks that calls succeed while others are slow. */
async function assertServing(): Promise<void> {
  for (let index = 0; index < 50; index++) {
    const { statusCode, body } = await request(`${stage.bound.https}/pay`, {
      dispatcher: stage.agent,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"amount":1}',
    });
    await body.dump();
    expect(statusCode).toBe(200);
  }
}

async function measured(what: string, run: () => Promise<void>): Promise<number> {
  const before = stage.rss();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, stage.rss());
  }, 100);
  await run();
  clearInterval(watch);
  process.stdout.write(
    `\n${what}: RSS ${before.toFixed(0)} MiB, +${(most - before).toFixed(1)} at most\n`,
  );
  return most - before;
}

it(`${slowPeers} agents that do not read slow their upstreams down, and use bounded memory`, async () => {
  const grown = await measured(`${slowPeers} slow readers`, async () => {
    for (let index = 0; index < slowPeers; index++) {
      const { socket } = await kept(headOf('GET', `${stage.open.http}/large`));
      socket.pause();
    }
    await delay(trickleMs);
    await assertServing();
  });
  await letGo();
  expect(grown).toBeLessThan(150);
});

it(`${slowPeers} agents that send their bodies slowly are served, and so are other agents`, async () => {
  const grown = await measured(`${slowPeers} slow writers`, async () => {
    const clients: RawClient[] = [];
    for (let index = 0; index < slowPeers; index++) {
      clients.push(await kept(headOf('POST', `${stage.open.http}/`, 'Content-Length: 20\r\n')));
    }
    for (let byte = 0; byte < 20; byte++) {
      for (const { socket } of clients) socket.write('x');
      if (byte === 10) await assertServing();
      await delay(trickleMs / 20);
    }
    await until('all are answered', () => clients.every(({ text }) => text().includes(' 200 ')));
  });
  await letGo();
  expect(grown).toBeLessThan(60);
});

it(`${slowPeers} request heads that arrive slowly are answered with 408, and other requests are served`, async () => {
  const clients: Awaited<ReturnType<typeof kept>>[] = [];
  for (let index = 0; index < slowPeers; index++) clients.push(await kept('GET http://a'));
  const trickle = setInterval(() => {
    for (const { socket } of clients) if (socket.writable) socket.write('a');
  }, 500);
  await assertServing();
  const answers = await Promise.all(clients.map(({ closed }) => closed));
  clearInterval(trickle);
  expect(answers.filter((text) => text.includes('proxy.request_timeout'))).toHaveLength(slowPeers);
  await letGo();
});

it(`${streams} silent event streams stay open while other calls continue, and each still receives its event`, async () => {
  const grown = await measured(`${streams} idle event streams`, async () => {
    const clients: RawClient[] = [];
    for (let index = 0; index < streams; index++) {
      clients.push(await kept(headOf('GET', `${stage.open.http}/events`)));
    }
    await until('all stand', () => held.size === streams, 60_000);
    await assertServing();
    await delay(trickleMs);
    for (const res of held) res.write('data: now\n\n');
    await until('each has its event', () =>
      clients.every(({ text }) => text().includes('data: now')),
    );
  });
  await letGo();
  await until('the upstream is released', () => held.size === 0);
  expect(grown).toBeLessThan(100);
});

it(`${attempts} connections above the limit use little memory, and their slots are released`, async () => {
  const grown = await measured(`${attempts} attempts`, async () => {
    for (let begun = 0; begun < attempts; begun += attemptsAtOnce) {
      await Promise.all(Array.from({ length: attemptsAtOnce }, attempt));
    }
  });
  expect(grown).toBeLessThan(60);
  await letGo();
  await assertServing();
});

/**
 * Connects and sends nothing. The sidecar keeps the connection until the head timeout if it has capacity, and
 * otherwise drops it.
 */
function attempt(): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(stage.proxyPort, '127.0.0.1');
    sockets.add(socket);
    socket.on('error', () => {});
    socket.resume().once('close', () => resolve());
    socket.once('connect', () => resolve());
  });
}
