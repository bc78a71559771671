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

/** The maximum random delay, so that not all pods enrol again at the same moment after a rule changed. */
const againMsMax = 2_000;
/**
 * After a run shorter than this, the sidecar pauses before it enrols again, so that two holders of
 * one pod's token do not replace each other continuously.
 */
const shortRunMs = 60_000;
const shortRunPauseMs = 10_000;

/**
 * Starts the sidecar of a pod. Starts it again when its enrolment ends: the enrolment rule changed,
 * a sidecar with another key replaced it, or the control plane removed it because it was
 * unreachable for too long.
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
      // During the delay, the revoked sidecar still runs and states in its refusals that it is
      // revoked.
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
