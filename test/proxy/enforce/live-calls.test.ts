import { describe, expect, it } from 'vitest';
import { isBlocked, LiveCalls } from '../../../proxy/enforce/live-calls.ts';
import type { KillSwitch } from '../../../shared/decision/state.ts';

const blockTool = (tool: string, expiresAtMs?: number): KillSwitch => ({
  id: 'ks_1',
  kind: 'block_tool',
  tool,
  reason: 'x',
  expiresAtMs,
});
const blockAgent: KillSwitch = { id: 'ks_2', kind: 'block_agent', agentId: '7', reason: 'x' };
const call = { tool: 'bank.pay', agentId: '7' };

describe('isBlocked', () => {
  it.each([
    ['its tool', blockTool('bank.pay'), true],
    ['a glob over its tool', blockTool('bank.*'), true],
    ['another tool', blockTool('bank.read'), false],
    ['its agent', blockAgent, true],
    ['another agent', { ...blockAgent, agentId: '8' }, false],
    ['its tool, but the switch ran out', blockTool('bank.pay', 999), false],
    ['its tool, the switch still holds', blockTool('bank.pay', 1001), true],
    [
      'only a mode',
      { id: 'ks_3', kind: 'force_mode', mode: 'strict', reason: 'x' } as KillSwitch,
      false,
    ],
  ])('a switch on %s', (_what, armed, blocked) => {
    expect(isBlocked(call, [armed], 1000)).toBe(blocked);
  });
});

describe('LiveCalls', () => {
  it('arming a kill switch aborts the calls it blocks and no others', async () => {
    const live = new LiveCalls();
    const { signal } = new AbortController();
    const ends: Record<string, boolean> = {};
    const run = (tool: string) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      void live.track({ tool, agentId: '7', signal }, async (aborted) => {
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
    const gone = AbortSignal.abort();
    const seen = await new LiveCalls().track(
      { ...call, signal: gone },
      async (signal) => signal.aborted,
    );
    expect(seen).toBe(true);
  });
});
