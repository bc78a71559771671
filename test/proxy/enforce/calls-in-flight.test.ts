import { describe, expect, it } from 'vitest';
import { StoppableCalls, stopOf } from '../../../proxy/enforce/calls-in-flight.ts';
import type { KillSwitch } from '../../../shared/decision/state.ts';

const blockTool = (tool: string, expiresAtMs?: number): KillSwitch => ({
  id: 'ks_1',
  kind: 'block_tool',
  tool,
  reason: 'x',
  expiresAtMs,
});

const call = (tool: string) => ({ tool, agentId: '7', abort: new AbortController() });

describe('StoppableCalls', () => {
  it('aborts only the calls that an armed kill switch blocks', () => {
    const live = new StoppableCalls();
    const [pay, read] = [call('bank.pay'), call('bank.read')];
    const removePay = live.add(pay);
    const removeRead = live.add(read);
    expect(live.size).toBe(2);
    expect(live.endBlocked([blockTool('bank.pay')], 0)).toBe(1);
    expect([pay, read].map(({ abort }) => stopOf(abort.signal))).toEqual([
      'runtime.kill_switch',
      undefined,
    ]);
    removePay();
    removeRead();
    expect(live.size).toBe(0);
  });

  it('does not abort a call that was removed', () => {
    const live = new StoppableCalls();
    const ended = call('bank.pay');
    live.add(ended)();
    expect(live.endAll('agent.disabled')).toBe(0);
    expect(ended.abort.signal.aborted).toBe(false);
  });

  it('on a revocation, aborts every call and reports the revocation as the cause', () => {
    const live = new StoppableCalls();
    const running = call('bank.pay');
    live.add(running);
    expect(live.endAll('agent.disabled')).toBe(1);
    expect(stopOf(running.abort.signal)).toBe('agent.disabled');
  });
});
