import type { Log } from '../base/log.ts';
import type { Follower } from './bus.ts';

/** Wraps a follower so that its exceptions are logged and do not count as failures of the bus. */
export function catchFollowerErrors(follower: Follower, log: Log): Follower {
  const guard = (call: () => void) => {
    try {
      call();
    } catch (error) {
      log.error({ err: error }, 'a follower of the sync bus failed');
    }
  };
  return {
    onChange: (change) => guard(() => follower.onChange(change)),
    onGap: () => guard(() => follower.onGap()),
    wants: follower.wants,
  };
}
