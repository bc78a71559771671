import { setTimeout as delay } from 'node:timers/promises';
import { blockingSwitch } from '../../shared/decision/kill-switch.ts';
import type { KillSwitch } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Stop } from '../call/call-facts.ts';
import type { Revocation } from '../replica/replica.ts';

/**
 * Tracks calls that are being answered or recorded, so that nothing they use is closed too early.
 */
export class CallsInFlight {
  readonly #running = new Set<Promise<void>>();

  add(work: Promise<void>): Promise<void> {
    this.#running.add(work);
    const done = () => this.#running.delete(work);
    work.then(done, done);
    return work;
  }

  /** Resolves when all calls have ended, or after `atMostMs`. */
  async settled(atMostMs: number): Promise<void> {
    const patience = new AbortController();
    const { signal } = patience;
    await Promise.race([
      Promise.allSettled(this.#running),
      delay(atMostMs, undefined, { signal }).catch(() => {}),
    ]);
    patience.abort();
  }
}

/**
 * The reason why the sidecar ended a call; undefined if it did not end the call, for example
 * because the agent disconnected.
 */
export function stopOf({ reason }: AbortSignal): Stop | undefined {
  return reason instanceof Stopped ? reason.stop : undefined;
}

class Stopped extends GatewayError {
  readonly stop: Stop;

  constructor(stop: Stop) {
    super(stop);
    this.stop = stop;
  }
}

interface LiveCall {
  readonly tool: string;
  readonly agentId: string;
  readonly abort: AbortController;
}

/**
 * The calls in flight. A kill switch ends the calls that it blocks; a revocation ends all calls.
 */
export class StoppableCalls {
  readonly #calls = new Set<LiveCall>();

  get size(): number {
    return this.#calls.size;
  }

  /** Adds a call that the sidecar may end; returns a function that removes it. */
  add(call: LiveCall): () => void {
    this.#calls.add(call);
    return () => {
      this.#calls.delete(call);
    };
  }

  /** Ends every call that the switches block; returns how many. */
  endBlocked(switches: readonly KillSwitch[], nowMs: number): number {
    const blocked = [...this.#calls].filter(
      (call) => blockingSwitch(switches, call, nowMs) !== undefined,
    );
    for (const { abort } of blocked) abort.abort(new Stopped('runtime.kill_switch'));
    return blocked.length;
  }

  /** Ends every call because of a revocation; returns how many. */
  endAll(revocation: Revocation): number {
    const calls = [...this.#calls];
    for (const { abort } of calls) abort.abort(new Stopped(revocation));
    return calls.length;
  }
}
