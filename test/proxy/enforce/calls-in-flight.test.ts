import { describe, expect, it } from 'vitest';
import { StoppableCalls } from '../../../proxy/enforce/calls-in-flight.ts';
import type { KillSwitch } from '../../../shared/decision/state.ts';

const blockTool = (tool: string, expiresAtMs?: number): KillSwitch => ({
  id: 'ks_1',
  kind: 'block_tool',
  tool,
  reason: 'x',
  expiresAtMs,
});
const call = { tool: 'bank.pay', agentId: '7' };

describe('StoppableCalls', () => {
  it('arming a kill switch aborts the calls it blocks and no others', async () => {
    const live = new StoppableCalls();
    const ends: Record<string, boolean> = {};
    const run = (tool: string) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      void live.track({ tool, agentId: '7', abort: new AbortController() }, async (aborted) => {
        aborted.addEventListener('abort', () => resolve());
        await promise;
        ends[tool] = aborted.aborted;
      });
      return resolve;
    };
    run('bank.pay');
    const finish = run('bank.read');
    expect(live.size).toBe(2);
    expect(live.endBlocked([blockTool('bank.pay')], 0)).toBe(1);
    finish();
    await new Promise((resolve) => setImmediate(resolve));
    expect(ends).toEqual({ 'bank.pay': true, 'bank.read': false });
    expect(live.size).toBe(0);
  });

  it('a call whose agent is already gone begins aborted', async () => {
    const gone = new AbortController();
    gone.abort();
    const seen = await new StoppableCalls().track(
      { ...call, abort: gone },
      async (signal) => signal.aborted,
    );
    expect(seen).toBe(true);
  });
});
