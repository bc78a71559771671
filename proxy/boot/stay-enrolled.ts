import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../shared/base/log.ts';
import type { Identity } from '../base/identity.ts';

interface Running {
  readonly identity: Identity;
  /** Resolves when the control plane no longer knows the sidecar, or has revoked it. */
  readonly refused: Promise<void>;
  close(): Promise<void>;
}

interface StayOptions {
  readonly start: () => Promise<Running>;
  readonly log: Log;
  /** Called if the sidecar cannot start again. */
  readonly onFailure: (error: Error) => void;
}

/** Spreads the pods that enrol again after a rule changed. */
const againMsMax = 2_000;
/** After a run this short, the sidecar pauses, so that two holders of one pod's token do not race. */
const shortRunMs = 60_000;
const shortRunPauseMs = 10_000;

/**
 * Starts the sidecar of a pod, and starts it again when its enrolment ends: its rule changed,
 * another key took its place, or it was unreachable for so long that the control plane removed it.
 */
export async function stayEnrolled({
  start,
  log,
  onFailure,
}: StayOptions): Promise<Pick<Running, 'close'>> {
  let current = await start();
  let isClosing = false;
  const follow = async () => {
    while (!isClosing) {
      const startedAtMs = performance.now();
      await current.refused;
      const isShort = performance.now() - startedAtMs < shortRunMs;
      // Until then, the revoked sidecar answers the agent with its reason.
      await delay((isShort ? shortRunPauseMs : 0) + Math.random() * againMsMax);
      if (isClosing) return;
      const { sidecarId } = current.identity;
      log.warn({ sidecar: sidecarId }, 'the sidecar was revoked and enrols again');
      await current.close();
      if (!isClosing) current = await start();
    }
  };
  follow().catch(onFailure);
  return {
    close: () => {
      isClosing = true;
      return current.close();
    },
  };
}
