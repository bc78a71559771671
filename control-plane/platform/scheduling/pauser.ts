import { setImmediate as turn } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../shared/base/clock.ts';
import type { Steps } from '../../../shared/base/steps.ts';
import { measureWork } from './work-meter.ts';

/** How long work holds up the others whom this process serves, if no step of it takes longer. */
const sliceMs = 10;

/** Called between two steps of long work. Undefined while the slice lasts, so that it costs nothing. */
export type Pause = () => Promise<void> | undefined;

/** Lets all others have a turn whenever a slice of time is used up. */
export function pauser(clock: Pick<Clock, 'monotonic'> = systemClock): Pause {
  let endsAt = clock.monotonic() + sliceMs;
  return () => {
    if (clock.monotonic() < endsAt) return undefined;
    return yieldToEventLoop().then(() => {
      endsAt = clock.monotonic() + sliceMs;
    });
  };
}

/** A single turn that begins while Node reads from sockets ends before timers and other sockets. */
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
