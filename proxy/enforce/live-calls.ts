import type { KillSwitch } from '../../shared/decision/state.ts';
import { compileGlob } from '../../shared/glob.ts';

interface LiveCall {
  readonly tool: string;
  readonly agentId: string;
  readonly abort: AbortController;
}

/** True when an armed switch stops this tool or agent at `nowMs`, whatever the mode. */
export function isBlocked(
  call: { readonly tool: string; readonly agentId: string },
  switches: readonly KillSwitch[],
  nowMs: number,
): boolean {
  return switches.some(
    (armed) =>
      (armed.expiresAtMs === undefined || armed.expiresAtMs > nowMs) &&
      ((armed.kind === 'block_tool' &&
        armed.tool !== undefined &&
        compileGlob(armed.tool, 'tool')(call.tool)) ||
        (armed.kind === 'block_agent' && armed.agentId === call.agentId)),
  );
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
      if (!isBlocked(call, switches, nowMs)) continue;
      call.abort.abort(new Error('a kill switch was armed'));
      ended += 1;
    }
    return ended;
  }
}
