import { ProxyAgent, WebSocket } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { startWebSocketEcho, type WebSocketEcho } from '../../support/sidecar/websocket-echo.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

describe('the sidecar as a proxy for WebSockets', () => {
  let bench: FaultBench;
  let echo: WebSocketEcho;
  let dispatcher: ProxyAgent;

  beforeAll(async () => {
    bench = await startFaultBench();
    echo = await startWebSocketEcho();
    dispatcher = new ProxyAgent({ uri: bench.separate.proxyUrl });
    const { api } = bench.separate;
    const binding = {
      protocol: 'http',
      host: `127.0.0.1:${echo.port}`,
      method: 'GET',
      body: 'none',
      resource: 'feed:main',
    };
    await api('PUT', '/v1/runtime/bindings/live', {
      ...binding,
      path: '/live',
      tool: 'feed.live',
      upgrade: true,
    });
    await api('PUT', '/v1/runtime/bindings/barred', {
      ...binding,
      path: '/barred',
      tool: 'feed.barred',
      upgrade: true,
    });
    await api('PUT', '/v1/runtime/bindings/plain', {
      ...binding,
      path: '/plain',
      tool: 'feed.live',
    });
    await api('POST', '/v1/policies', { name: 'feed', publish: true, rules_json: policy });
    await until('the policy is in force', async () => {
      const socket = open('/live');
      return (await outcomeOf(socket)) === 'open';
    });
  }, 60_000);

  afterAll(async () => {
    await dispatcher?.close();
    await echo?.close();
    await bench?.close();
  });

  const open = (path: string) =>
    new WebSocket(`ws://127.0.0.1:${echo.port}${path}`, { dispatcher });

  const outcomeOf = (socket: WebSocket) =>
    new Promise<'open' | 'refused'>((resolve) => {
      socket.addEventListener('open', () => {
        resolve('open');
        socket.close();
      });
      socket.addEventListener('error', () => resolve('refused'));
    });

  it('tunnels a bound and allowed upgrade in both directions, and the decision and the outcome are sealed', async () => {
    const socket = open('/live?room=7');
    const { promise, resolve } = Promise.withResolvers<unknown>();
    socket.addEventListener('open', () => socket.send('hello'));
    socket.addEventListener('message', ({ data }) => resolve(data));
    expect(await promise).toBe('hello');
    socket.close();
    const handshake = echo.handshakes.at(-1);
    expect(handshake?.url).toBe('/live?room=7');
    expect(handshake?.headers['proxy-authorization']).toBeUndefined();
    await bench.untilSealed('decision and outcome', (events) => {
      const ids = events
        .filter((event) => event.tool === 'feed.live' && event.type === 'decision')
        .map(({ id }) => id);
      const ended = events.filter(
        (event) => event.type === 'execution.result' && event.data.status === 101,
      );
      return ended.some((event) => ids.includes(String(event.data.decision_event_id)));
    });
  });

  it.each([
    ['that no policy allows', '/barred'],
    ['on a binding that allows no upgrades', '/plain'],
    ['without a binding', '/other'],
  ])('does not forward an upgrade %s to the server', async (_what, path) => {
    const before = echo.handshakes.length;
    expect(await outcomeOf(open(path))).toBe('refused');
    expect(echo.handshakes).toHaveLength(before);
  });

  it('seals a refused upgrade with its reason', async () => {
    await bench.untilSealed('both reasons', (events) =>
      ['proxy.upgrade_refused', 'policy.no_match'].every((reason) =>
        events.some((event) => event.type === 'decision' && event.reason_code === reason),
      ),
    );
  });
});

const policy = {
  id: 'feed',
  version: 1,
  rules: [
    {
      name: 'live',
      decision: 'allow',
      reason: 'feed.live',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'feed.live' }] },
    },
  ],
};
