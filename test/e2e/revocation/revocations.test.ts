import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { OpenStreams } from './open-streams.ts';

let streams: OpenStreams;
beforeAll(async () => {
  streams = await OpenStreams.start();
}, 90_000);
afterAll(async () => {
  await streams?.close();
});

async function setAgent(state: 'disabled' | 'enabled'): Promise<void> {
  const { api, agentId } = streams.bench.separate;
  const answer = await api('PATCH', `/v1/agents/${agentId}`, { disabled: state === 'disabled' });
  expect(answer.status).toBe(200);
}

describe('a revocation', () => {
  it('of the agent ends all open calls, refuses held calls, and is sealed as the reason', async () => {
    const open = await streams.openAll();
    await setAgent('disabled');
    await Promise.all(Object.values(open).map(({ ended }) => ended));
    expect(await open.hold.answered).toMatchObject({
      status: 403,
      body: { decision: 'deny', reason_code: 'agent.disabled' },
    });
    await until('the WebSocket is over upstream', () => streams.echo.open() === 0);
    await until('the feeds are over upstream', () => streams.upstreamFeeds.size === 0);
    for (const tool of ['feed.a', 'feed.b', 'mcp.crm.watch', 'chat.ws', 'passthrough.model']) {
      await streams.bench.untilSealed(`the end of ${tool}`, (all) =>
        all.some(
          (one) =>
            one.type === 'execution.result' &&
            one.tool === tool &&
            one.reason_code === 'agent.disabled',
        ),
      );
    }
    await open.watch.close();
  }, 60_000);

  it('of the agent also denies new tunnels, WebSockets and MCP sessions', async () => {
    expect((await streams.feed('b', true)).status).toBe(403);
    expect((await streams.openTunnel()).head).toContain('403');
    await expect(streams.openSocket()).rejects.toBeDefined();
    await expect(streams.mcpClient()).rejects.toThrow('agent.disabled');
    await setAgent('enabled');
    await until('calls go through again', async () => {
      const answer = await streams.feed('b', true);
      return answer.status === 200;
    });
    expect((await streams.openTunnel()).head).toContain('200');
  }, 60_000);

  it('of the sidecar ends all open calls and refuses held calls', async () => {
    const { separate } = streams.bench;
    const open = await streams.openAll();
    const { body } = await separate.api('GET', '/v1/sidecars');
    const [sidecar] = body.sidecars as readonly { readonly id: string }[];
    const revoked = await separate.api('DELETE', `/v1/sidecars/${sidecar?.id}`);
    expect(revoked.status).toBe(200);
    await Promise.all(Object.values(open).map(({ ended }) => ended));
    expect(await open.hold.answered).toMatchObject({
      body: { decision: 'deny', reason_code: 'sidecar.revoked' },
    });
    expect((await streams.openTunnel()).head).toContain('401');
    expect(await (await streams.feed('b', true)).json()).toMatchObject({
      reason_code: 'sidecar.revoked',
    });
    await until('the WebSocket is over upstream', () => streams.echo.open() === 0);
    await until('the feeds are over upstream', () => streams.upstreamFeeds.size === 0);
    await open.watch.close();
  }, 60_000);
});
