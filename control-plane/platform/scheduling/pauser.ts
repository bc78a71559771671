import { setImmediate as turn } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../shared/base/clock.ts';
import type { Steps } from '../../../shared/base/steps.ts';
import { measureWork } from './work-meter.ts';

/** Maximum time that work blocks the process, unless a single step takes longer. */
const sliceMs = 10;

/**
 * Call it between two steps of long work. While the time slice lasts, it returns undefined and
 * costs nothing.
 */
export type Pause = () => Promise<void> | undefined;

/** Yields to the event loop whenever a time slice is over. */
export function pauser(clock: Pick<Clock, 'monotonic'> = systemClock): Pause {
  let endsAt = clock.monotonic() + sliceMs;
  return () => {
    if (clock.monotonic() < endsAt) return undefined;
    return yieldToEventLoop().then(() => {
      endsAt = clock.monotonic() + sliceMs;
    });
  };
}

/**
 * Waits twice, because a single `setImmediate` during socket reads returns before timers and other
 * sockets run.
 */
async function yieldToEventLoop(): Promise<void> {
  await turn();
  await turn();
}

/** Runs a generator to its end and pauses between its steps. */
export async function runWithPauses<Result>(steps: Steps<Result>, pause: Pause): Promise<Result> {
  for (;;) {
    const { done, value } = measureWork(() => steps.next());
    if (done) return value;
    await pause();
  }
}
