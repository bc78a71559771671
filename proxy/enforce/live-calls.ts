import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import type { KillSwitch } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors.ts';

/** Whether a call was aborted by a kill switch, and not by its agent going away. */
export function isKilled({ reason }: AbortSignal): boolean {
  return reason instanceof GatewayError && reason.code === 'runtime.kill_switch';
}

interface LiveCall {
  readonly tool: string;
  readonly agentId: string;
  readonly abort: AbortController;
}

/** The calls under way, so that arming a kill switch ends the ones it blocks. */
export class LiveCalls {
  readonly #calls = new Set<LiveCall>();

  get size(): number {
    return this.#calls.size;
  }

  /** Runs a call that an armed switch, or the agent going away, aborts through the signal. */
  async track<Result>(
    call: { readonly tool: string; readonly agentId: string; readonly signal: AbortSignal },
    run: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const live: LiveCall = { tool: call.tool, agentId: call.agentId, abort: new AbortController() };
    const leave = () => live.abort.abort(call.signal.reason);
    if (call.signal.aborted) leave();
    else call.signal.addEventListener('abort', leave, { once: true });
    this.#calls.add(live);
    try {
      return await run(live.abort.signal);
    } finally {
      this.#calls.delete(live);
      call.signal.removeEventListener('abort', leave);
    }
  }

  /** Ends every call that the switches block; returns how many. */
  endBlocked(switches: readonly KillSwitch[], nowMs: number): number {
    let ended = 0;
    for (const call of this.#calls) {
      if (blockingSwitch(switches, call, nowMs) === undefined) continue;
      call.abort.abort(new GatewayError('runtime.kill_switch'));
      ended += 1;
    }
    return ended;
  }
}
