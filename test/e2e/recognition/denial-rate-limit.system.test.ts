import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { rawClient } from '../../support/sidecar/raw-client.ts';
import {
  type FaultBench,
  type LedgerEvent,
  startFaultBench,
} from '../../support/system/fault-bench.ts';

const burst = 20;
const flood = 400;

describe('an agent with a flood of denied calls', () => {
  let bench: FaultBench;
  /** Calls that were denied before the sidecar received the MCP binding. */
  let deniedBefore = 0;
  let throttledBefore = 0;
  let mcpUrl: string;
  let unread: string;
  beforeAll(async () => {
    bench = await startFaultBench({
      SALLYPORT_DENIALS_BURST: String(burst),
      SALLYPORT_DENIALS_PER_SECOND: '1',
    });
    const { api } = bench.separate;
    mcpUrl = `http://127.0.0.1:${bench.upstream.port}/mcp`;
    await api('PUT', '/v1/runtime/bindings/crm', {
      protocol: 'mcp',
      host: `127.0.0.1:${bench.upstream.port}`,
      path: '/mcp',
    });
    unread = `localhost:${bench.upstream.port}`;
    await api('PUT', '/v1/runtime/bindings/model', { protocol: 'passthrough', host: unread });
    await until('the MCP binding is active', async () => {
      const { status, text } = await callTool();
      if (text.includes('proxy.unbound_call')) deniedBefore += 1;
      if (status === 429) throttledBefore += 1;
      return text.includes('"jsonrpc"');
    });
  }, 60_000);
  afterAll(() => bench?.close());

  async function callTool() {
    const { status, headers, body } = await bench.agent.post(
      mcpUrl,
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'wipe', arguments: {} } },
      { accept: 'application/json, text/event-stream' },
    );
    return { status, headers, text: JSON.stringify(body) };
  }

  const ofType = (events: readonly LedgerEvent[], type: string) =>
    events.filter((event) => event.type === type);
  /**
   * Returns the denials in the ledger: those with an event of their own, and the counts in
   * summaries, by reason.
   */
  const denialsIn = (events: readonly LedgerEvent[]) => {
    const counts = new Map<string, number>();
    for (const { data } of ofType(events, 'sidecar.throttled')) {
      for (const { count, reason_code } of data.denied as { count: number; reason_code: string }[])
        counts.set(reason_code, (counts.get(reason_code) ?? 0) + count);
    }
    const single = events.filter(({ decision }) => decision === 'deny');
    return { single, counts };
  };
  const summed = ({ counts, single }: ReturnType<typeof denialsIn>, reason: string) =>
    (counts.get(reason) ?? 0) + single.filter(({ reason_code }) => reason_code === reason).length;

  it('gets 429 beyond the rate, and the ledger counts every call', async () => {
    const unbound = `${bench.url}/elsewhere`;
    const answers = await Promise.all(
      Array.from({ length: flood }, () => bench.agent.post(unbound, {})),
    );
    const throttled = answers.filter(({ status }) => status === 429);
    expect(throttled.length).toBeGreaterThan(flood / 2);
    const [first] = throttled;
    expect(first?.headers.get('retry-after')).toBe('1');
    expect(first?.headers.get('sallyport-decision')).toBe('deny');
    expect(first?.body).toMatchObject({
      decision: 'deny',
      reason_code: 'rate_limited.denials',
      error: expect.stringContaining('proxy.unbound_call'),
    });
    const events = await bench.untilSealed(
      'every denial is counted',
      (all) => summed(denialsIn(all), 'proxy.unbound_call') >= flood + deniedBefore,
    );
    expect(summed(denialsIn(events), 'proxy.unbound_call')).toBe(flood + deniedBefore);
    const counted = denialsIn(events).counts.get('proxy.unbound_call');
    expect(counted).toBe(throttled.length + throttledBefore);
    expect(denialsIn(events).single.length).toBeLessThan(flood / 2);
  });

  it('still gets its allowed calls performed, each with its own event', async () => {
    const hostile = Promise.all(Array.from({ length: 200 }, () => bench.pay(1_000_000)));
    const allowed = await Promise.all(Array.from({ length: 60 }, () => bench.pay(1)));
    expect(allowed.map(({ status }) => status)).toEqual(Array(60).fill(200));
    await hostile;
    const ids = allowed.map(
      ({ headers }) => /evidence=(\S+)/.exec(headers.get('sallyport-decision') ?? '')?.[1],
    );
    expect(new Set(ids).size).toBe(60);
    await bench.untilSealed('each allowed call and its result are sealed', (all) => {
      const allows = all.filter(({ decision }) => decision === 'allow').map(({ id }) => id);
      const results = ofType(all, 'execution.result').map(({ data }) => data.decision_event_id);
      return ids.every((id) => allows.includes(String(id)) && results.includes(id));
    });
  });

  it('gets the refusal of the rate limit over MCP as a tool result', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, () => callTool()));
    const throttled = answers.filter(({ text }) => text.includes('rate_limited.denials'));
    expect(throttled.length).toBeGreaterThan(30);
    expect(throttled[0]).toMatchObject({ status: 200 });
    expect(throttled[0]?.headers.get('retry-after')).toBe('1');
    expect(throttled[0]?.text).toContain('"isError":true');
  });

  it('gets 429 for malformed calls, and for calls that a kill switch blocks', async () => {
    const malformed = () => bench.agent.post(bench.url, 'not an object');
    const { api } = bench.separate;
    const armed = await api('POST', '/v1/runtime/kill-switches', {
      kind: 'block_agent',
      agent_id: bench.separate.agentId,
      reason: 'test',
    });
    expect(armed.status).toBeLessThan(300);
    await until('the kill switch is active', async () => {
      const { body } = await bench.pay(1);
      return JSON.stringify(body).includes('runtime.kill_switch');
    });
    const kinds: [string, () => Promise<unknown>][] = [
      ['args.schema_invalid', malformed],
      ['runtime.kill_switch', () => bench.pay(1)],
      ['runtime.kill_switch', () => tunnel()],
    ];
    for (const [reason, call] of kinds) {
      const before = denialsIn(await bench.events()).counts.get(reason) ?? 0;
      await Promise.all(Array.from({ length: 60 }, call));
      await bench.untilSealed(
        `denials of ${reason} are counted`,
        (all) => (denialsIn(all).counts.get(reason) ?? 0) >= before + 30,
      );
    }
  });

  async function tunnel(): Promise<string> {
    const port = Number(new URL(bench.separate.proxyUrl).port);
    return (await rawClient(port, `CONNECT ${unread} HTTP/1.1\r\nHost: ${unread}\r\n\r\n`)).closed;
  }

  it('gets 429 for a tunnel', async () => {
    await Promise.all(Array.from({ length: 30 }, () => tunnel()));
    const answer = await tunnel();
    expect(answer).toMatch(/^HTTP\/1\.1 429 /);
    expect(answer.toLowerCase()).toContain('retry-after: 1');
    expect(answer).toContain('"reason_code":"rate_limited.denials"');
  });
});
