import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { OpenStreams } from './open-streams.ts';

let streams: OpenStreams;
beforeAll(async () => {
  streams = await OpenStreams.start();
}, 90_000);
afterAll(() => streams?.close());

async function arm(body: object): Promise<string> {
  const answer = await streams.bench.separate.api('POST', '/v1/runtime/kill-switches', {
    reason: 'incident 12',
    ...body,
  });
  expect(answer.status).toBe(201);
  return String(answer.body.id);
}
const disarm = (id: string) =>
  streams.bench.separate.api('DELETE', `/v1/runtime/kill-switches/${id}`);

const endedByKillSwitch = (tool: string, count = 1) =>
  streams.bench.untilSealed(
    `${count} outcomes of ${tool}`,
    (all) =>
      all.filter(
        (event) =>
          event.type === 'execution.result' &&
          event.tool === tool &&
          event.reason_code === 'runtime.kill_switch',
      ).length === count,
  );

describe('an armed kill switch', () => {
  it('for a tool ends only the open calls of this tool, and records each of them in the ledger', async () => {
    const open = await streams.openAll();
    const tools = {
      a: 'feed.a',
      watch: 'mcp.crm.watch',
      socket: 'chat.ws',
      tunnel: 'passthrough.model',
      hold: 'bank.large',
    } as const;
    const ids: string[] = [];
    const left = new Set(Object.keys(open) as (keyof typeof open)[]);
    for (const [name, tool] of Object.entries(tools) as [keyof typeof tools, string][]) {
      ids.push(await arm({ kind: 'block_tool', tool }));
      await open[name].ended;
      left.delete(name);
      for (const other of left)
        expect([name, other, open[other].isOpen()]).toEqual([name, other, true]);
    }
    expect([...left]).toEqual(['b']);
    // The upstream sees the end, too: afterwards, it sends only the feed of b.
    await until('the feed of a is over upstream', () => streams.upstreamFeeds.size === 1);
    await until('the WebSocket is over upstream', () => streams.echo.open() === 0);
    expect(await open.a.ended).toMatch(/^broken/);
    expect(await open.watch.ended).toMatch(/^broken/);
    expect(await open.hold.answered).toMatchObject({
      status: 403,
      body: { decision: 'deny', reason_code: 'runtime.kill_switch' },
    });
    for (const tool of Object.values(tools)) {
      if (tool !== 'bank.large') await endedByKillSwitch(tool);
    }
    await streams.bench.untilSealed('the held call’s denial', (all) =>
      all.some((one) => one.tool === 'bank.large' && one.reason_code === 'runtime.kill_switch'),
    );
    expect(streams.bench.upstream.seen.some(({ url }) => url === '/large')).toBe(false);
    for (const id of ids) await disarm(id);
    await open.watch.close();
  }, 60_000);

  it('for an agent ends all open calls of the agent, and blocks new calls until the kill switch is disarmed', async () => {
    await until('disarmed', async () => {
      const { status, body } = await streams.feed('a');
      await body?.cancel();
      return status === 200;
    });
    const open = await streams.openAll();
    const id = await arm({ kind: 'block_agent', agent_id: streams.bench.separate.agentId });
    await Promise.all(Object.values(open).map(({ ended }) => ended));
    expect(await open.hold.answered).toMatchObject({
      body: { reason_code: 'runtime.kill_switch' },
    });
    const refused = await streams.feed('b', true);
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ reason_code: 'runtime.kill_switch' });
    expect((await streams.openTunnel()).head).toContain('403');
    await expect(streams.openSocket()).rejects.toBeDefined();
    await disarm(id);
    await until(
      'calls go through again',
      async () => (await streams.feed('b', true)).status === 200,
    );
    const client = await streams.mcpClient();
    expect(await client.callTool({ name: 'read' })).toMatchObject({ content: [{ text: 'read' }] });
    await client.close();
    await open.watch.close();
    expect((await streams.bench.separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
  }, 60_000);

  it('is reported to an MCP client in-band, and the session of the client remains open', async () => {
    const client = await streams.mcpClient();
    const id = await arm({ kind: 'block_tool', tool: 'mcp.crm.*' });
    await until('blocked', async () => (await client.callTool({ name: 'read' })).isError === true);
    expect(await client.callTool({ name: 'read' })).toMatchObject({
      isError: true,
      structuredContent: { reason_code: 'runtime.kill_switch' },
    });
    await disarm(id);
    await until('let go', async () => (await client.callTool({ name: 'read' })).isError !== true);
    await client.close();
  });

  it('with an expiry no longer blocks calls after the expiry', async () => {
    const expires_at = new Date(Date.now() + 3_000).toISOString();
    await arm({ kind: 'block_tool', tool: 'feed.b', expires_at });
    await until('blocked', async () => (await streams.feed('b', true)).status === 403);
    await until('over', async () => (await streams.feed('b', true)).status === 200);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expires_at));
  });

  it('blocks calls even if the tenant is in monitor mode', async () => {
    const setMode = async (mode: string) => {
      const { status } = await streams.bench.separate.api('PATCH', '/v1/tenant/settings', { mode });
      expect(status).toBe(200);
    };
    const isAllowed = async (amount: number) => (await streams.bench.pay(amount)).status === 200;
    await setMode('monitor');
    await until('nothing is refused any more', () => isAllowed(99_999));
    const id = await arm({ kind: 'block_tool', tool: 'bank.*' });
    await until('but what is blocked', async () => !(await isAllowed(1)));
    expect((await streams.bench.pay(1)).body).toMatchObject({ reason_code: 'runtime.kill_switch' });
    await disarm(id);
    await until('disarmed', () => isAllowed(1));
    const forced = await arm({ kind: 'force_mode', mode: 'enforce' });
    await until('forced to enforce', async () => !(await isAllowed(99_999)));
    expect((await streams.bench.pay(99_999)).body).toMatchObject({
      reason_code: 'policy.no_match',
    });
    await disarm(forced);
    await setMode('enforce');
  });

  it('that forces strict mode denies unregistered tools', async () => {
    const id = await arm({ kind: 'force_mode', mode: 'strict', tool: 'feed.b' });
    await until('forced', async () => (await streams.feed('b', true)).status === 403);
    expect(await (await streams.feed('b', true)).json()).toMatchObject({
      reason_code: 'tool.unregistered',
    });
    await disarm(id);
    await until('let go', async () => (await streams.feed('b', true)).status === 200);
  });
});
