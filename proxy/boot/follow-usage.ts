import type { Log } from '../../shared/base/log.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { ControlPlane } from '../control-plane/client.ts';
import type { Replica } from '../replica/replica.ts';
import type { UsageCounter } from '../replica/usage-counter.ts';
import type { Spool } from '../spool/spool.ts';

const everyMs = 1_000;
/** Polling interval while records of an earlier run are being uploaded. */
const soonMs = 100;
/**
 * All totals are fetched again at this interval, which drops totals outside every budget's window.
 */
const wholeEveryMs = 3_600_000;

interface FollowOptions {
  readonly counter: UsageCounter;
  readonly replica: Replica;
  readonly controlPlane: Pick<ControlPlane, 'usage'>;
  readonly spool: Pick<Spool, 'acked' | 'written'>;
  readonly log: Log;
}

/**
 * Polls the control plane for the agent's usage outside this run, every second while a published
 * policy has a budget. Records of an earlier run are uploaded first, so that the response includes
 * all of that run.
 */
export function followUsage({ counter, replica, controlPlane, spool, log }: FollowOptions): {
  close(): void;
} {
  const leftBehind = spool.written.record;
  const { clock } = replica;
  let timer: NodeJS.Timeout | undefined;
  let isFollowing = false;
  let isClosed = false;
  let wholeAtMs = Number.NEGATIVE_INFINITY;
  const plan = (inMs: number) => {
    clearTimeout(timer);
    timer = isClosed ? undefined : setTimeout(look, inMs).unref();
  };
  const look = () => {
    isFollowing = hasBudgets(replica);
    if (!isFollowing) counter.rest();
    else if (spool.acked.record < leftBehind) plan(soonMs);
    else void ask().finally(() => plan(everyMs));
  };
  const ask = async () => {
    const askedAtMs = clock.monotonic();
    const isWhole = askedAtMs - wholeAtMs > wholeEveryMs;
    try {
      const after = isWhole ? 0 : counter.position;
      counter.takeOver(await controlPlane.usage(counter.run, after), askedAtMs);
      if (isWhole) wholeAtMs = askedAtMs;
    } catch (err) {
      counter.triedOnce();
      log.debug({ err }, 'what the agent did elsewhere could not be learnt');
    }
  };
  const unsubscribe = tenantSections.map((section) =>
    replica.onChange(section, () => {
      if (!isFollowing) plan(0);
    }),
  );
  plan(0);
  return {
    close() {
      isClosed = true;
      clearTimeout(timer);
      for (const stop of unsubscribe) stop();
    },
  };
}

/** Also false while the replica holds no policies. */
function hasBudgets(replica: Replica): boolean {
  try {
    return !replica.policies.usage.isEmpty;
  } catch {
    return false;
  }
}
